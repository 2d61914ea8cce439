"""Programs of others that speak HTTP: curl, httpx, and a plain socket."""

import os
import re
import shutil
import socket
import sys
from pathlib import Path

import httpx
import pytest
import trio
import trio.testing

from endpoints.restms.caller import open_restms, restms_of
from triomq.app import Broker
from triomq.protocols import restms

SCRIPT = Path(__file__).parents[3] / "examples" / "messages_with_curl.sh"
LOGIN = ("guest", "guest")


def url_of(broker: Broker) -> str:
    return f"http://127.0.0.1:{broker.listening[0].port}"


def open_client(broker: Broker) -> httpx.AsyncClient:
    return httpx.AsyncClient(auth=LOGIN, base_url=url_of(broker), trust_env=False)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_commands_of_the_guide_run_as_they_stand(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    async with open_restms() as broker:
        environment = {**os.environ, "URL": url_of(broker), "http_proxy": "", "no_proxy": "*"}
        done = await trio.run_process(
            ["sh", str(SCRIPT)], cwd=tmp_path, env=environment, capture_stdout=True, capture_stderr=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")
    for said in (b">hello<", b'"value":"rain"', b'message_id="job 1"', b"rotator"):
        assert said in done.stdout
    assert b'address="weather.map"' in done.stdout


async def test_httpx_polls_and_posts_over_connections_that_stay(tmp_path: Path) -> None:
    async with open_restms() as broker, open_client(broker) as client:
        made = await client.post("/restms/domain/default", json={"restms": {"pipe": [{}]}})
        assert made.status_code == 201
        pipe = made.json()["restms"]["pipe"][0]
        got: list[str] = []

        async def read(count: int) -> None:
            uri = pipe["message"][-1]["href"]
            for _ in range(count):
                message = (await client.get(uri, headers={"Accept": "application/json"})).json()
                got.append(message["restms"]["message"][0]["content"][0]["value"])
                await client.delete(uri)
                document = (await client.get(made.headers["location"], headers={"Accept": "application/json"})).json()
                uri = document["restms"]["pipe"][0]["message"][0]["href"]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, 20)
            for number in range(20):
                content = {"type": "text/plain", "value": str(number)}
                document = {"restms": {"message": [{"address": pipe["name"], "content": [content]}]}}
                headers = {"Content-Type": restms.JSON.name}
                assert (await client.post("/restms/feed/default", json=document, headers=headers)).status_code == 200
        assert got == [str(number) for number in range(20)]


async def test_large_content_goes_through_both_ways() -> None:
    body = os.urandom(16 * 1024 * 1024)
    async with open_restms() as broker, open_client(broker) as client:
        made = await client.post("/restms/domain/default", json={"restms": {"pipe": [{}]}})
        name = made.json()["restms"]["pipe"][0]["name"]
        staged = await client.post("/restms/feed/default", content=body, headers={"Content-Type": "application/zip"})
        assert staged.status_code == 201, staged.text
        message = f'<restms><message address="{name}"><content href="{staged.headers["location"]}"/></message></restms>'
        headers = {"Content-Type": "text/xml"}
        assert (await client.post("/restms/feed/default", content=message, headers=headers)).status_code == 200
        messages = await client.get(f"{made.headers['location']}?messages=1", headers={"Accept": "application/json"})
        (content,) = messages.json()["restms"]["message"][0]["content"]
        found = await client.get(content["href"])
        assert (found.headers["content-type"], found.content == body) == ("application/zip", True)


async def test_requests_in_one_write_are_answered_in_order() -> None:
    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as stream:
            head = b"Host: h\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
            stream.sendall(
                b"GET /restms HTTP/1.1\r\n" + head + b"\r\n"
                b"DELETE /restms/feed/never HTTP/1.1\r\n" + head + b"\r\n"
                b"PATCH /restms HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n"
            )
            found = b""
            while data := stream.recv(65536):
                found += data
        return found

    async with open_restms() as broker:
        port = broker.listening[0].port
        assert port is not None
        answers = await trio.to_thread.run_sync(ask, port)
    assert re.findall(rb"HTTP/1\.1 ([0-9]+)", answers) == [b"200", b"200", b"403"]


async def test_polls_on_sockets_are_answered_when_the_broker_ends() -> None:
    head = b"Host: h\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    async with open_restms() as broker, open_client(broker) as client:
        made = await client.post("/restms/domain/default", json={"restms": {"pipe": [{}]}})
        asynclet = made.json()["restms"]["pipe"][0]["message"][-1]["href"].partition("/restms")[2]
        streams = [await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port or 0) for _ in range(20)]
        for stream in streams:
            await stream.send_all(b"GET /restms" + asynclet.encode() + b" HTTP/1.1\r\n" + head)
        while len(restms_of(broker).children) < 22:
            await trio.testing.wait_all_tasks_blocked(0.01)
    for stream in streams:
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 503")
        await stream.aclose()


def test_endpoint_is_not_loaded_by_a_broker_without_it() -> None:
    code = "import sys, triomq.app; sys.exit('triomq.endpoints.restms.endpoint' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
