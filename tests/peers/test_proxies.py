"""RestMS and WebSocket through proxies, with the configurations that the how-to shows."""

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from peers.served import Served, open_served
from ports import free_port
from triomq.clients import open_amqp, open_restms

ROOT = Path(__file__).parent.parent.parent
SETTINGS = {
    "endpoints_0_type": "amqp",
    "endpoints_0_port": "0",
    "endpoints_1_type": "restms",
    "endpoints_1_port": "0",
    "endpoints_2_type": "amqp",
    "endpoints_2_port": "0",
    "endpoints_2_websocket_path": "/amqp",
}
MINIMAL = "server { listen 8000; location / { proxy_pass http://127.0.0.1:8080; proxy_http_version 1.1; } }"


@pytest.fixture(scope="module")
def behind() -> Iterator[Served]:
    with open_served(**SETTINGS) as served:
        yield served


def with_ports(text: str, served: Served, port: int) -> str:
    restms, websocket = served.restms.rpartition(":")[2], re.findall(r":(\d+)", served.websocket)[-1]
    text = re.sub(r"(listen |bind :)8000", lambda found: f"{found[1].replace(':', '127.0.0.1:')}{port}", text)
    return text.replace("127.0.0.1:8080", f"127.0.0.1:{restms}").replace("127.0.0.1:15670", f"127.0.0.1:{websocket}")


@contextmanager
def running(*command: str, port: int) -> Iterator[int]:
    process = subprocess.Popen(command)
    try:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
                break
            except ConnectionRefusedError:
                pass
        assert process.returncode is None, f"{command[0]} has ended"
        yield port
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def nginx(program: str, folder: Path, site: str, served: Served) -> Iterator[int]:
    port = free_port()
    temporary = "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    whole = f"daemon off; pid {folder}/pid; events {{}} http {{ access_log off; {temporary} {site} }}"
    file = folder / "nginx.conf"
    file.write_text(with_ports(whole, served, port).replace(f"listen {port}", f"listen 127.0.0.1:{port}"))
    with running(program, "-e", "stderr", "-p", str(folder), "-c", str(file), port=port):
        yield port


async def exchange(port: int) -> None:
    """Have a message come as an event, and delete it by its href, all through the proxy."""
    url = f"http://guest:guest@127.0.0.1:{port}"
    with trio.fail_after(60):
        async with open_restms(url) as restms, restms.open_pipe() as pipe:
            feed = await restms.create_feed("proxied", "fanout")
            await pipe.join(feed)
            messages = aiter(pipe)
            for body in (b"first", b"second"):
                await feed.publish(body)
                message = await anext(messages)
                assert message.body == body
                message.accept()


async def call(port: int) -> None:
    """Speak AMQP over WebSocket through the proxy."""
    with trio.fail_after(60):
        url = f"ws://guest:guest@127.0.0.1:{port}/amqp"
        async with open_amqp(url) as connection, connection.open_channel() as channel:
            queue = await channel.declare_queue("", exclusive=True)
            assert queue.name


async def test_nginx_passes_on_what_the_how_to_says(tool: Callable[[str], str], behind: Served, tmp_path: Path) -> None:
    site = (ROOT / "examples" / "nginx.conf").read_text()
    with nginx(tool("nginx"), tmp_path, site, behind) as port:
        await exchange(port)
        await call(port)


async def test_nginx_as_it_is_installed_passes_events_on_at_once(
    tool: Callable[[str], str], behind: Served, tmp_path: Path
) -> None:
    with nginx(tool("nginx"), tmp_path, MINIMAL, behind) as port:
        await exchange(port)


async def test_haproxy_passes_on_what_the_how_to_says(
    tool: Callable[[str], str], behind: Served, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "how-to" / "behind-a-proxy.rst").read_text()
    shown = page.split("HAProxy\n-------\n\n::\n")[1].split("\n\nHAProxy keeps")[0]
    port, file = free_port(), tmp_path / "haproxy.cfg"
    lines = [line.removeprefix("    ") for line in shown.splitlines()]
    file.write_text(with_ports("\n".join(lines) + "\n", behind, port))
    with running(tool("haproxy"), "-f", str(file), port=port):
        await exchange(port)
        await call(port)
