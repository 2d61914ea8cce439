"""Who a session belongs to: identities that peers choose, forge or share, proxies, and what ZeroMQ has found out."""

import socket as sockets
import struct
from base64 import b64encode
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trio
import zmq

from endpoints.mtl.conftest import Served, serving
from endpoints.mtl.raw import Prepare, RawControl
from peers.mtl_peer import Command, open_proxy
from triomq.app import User
from triomq.endpoints import MTL
from triomq.errors import ConfigError
from triomq.security import ALL
from triomq.transports import make_curve_keys, write_curve_keys


def called(identity: bytes) -> Prepare:
    return lambda socket: socket.setsockopt(zmq.IDENTITY, identity)


async def test_peer_that_has_chosen_its_identity_has_a_session_which_nobody_inherits(served: Served) -> None:
    first = await served.control(prepare=called(b"me")).work_with("plain")
    assert (await first.ask("Thing.Make", name="q")).code == 200
    second = served.control(zmq.DEALER, prepare=called(b"me"))
    await second.say("Thing.Make", name="q")  # nothing comes of it as long as the first one is here
    assert (await first.ask("Thing.Make", name="q")).code == 200
    await first.close()
    while True:  # libzmq tries again now and then
        await second.say("Thing.Make", name="q")
        with trio.move_on_after(0.05):
            reply = await second.hear()
            break
    assert reply.code == 401


async def test_identity_that_is_chosen_inherits_no_session_where_peers_are_asked_for(nursery: trio.Nursery) -> None:
    def plain(user: str) -> Prepare:
        def prepare(socket: "zmq.Socket[bytes]") -> None:
            socket.plain_username = socket.plain_password = user.encode()
            socket.setsockopt(zmq.IDENTITY, b"me")

        return prepare

    async with serving(nursery, security="plain") as served:
        first = served.control(prepare=plain("guest"))
        assert (await first.open()).code == 401
        assert (await first.ask("Connection.Authorize", mechanism="EXTERNAL", response="")).code == 201
        await first.done("Connection.Profile", profile="test")
        await first.close()
        for user in ("guest", "other"):  # of the same user, too: it is another connection
            second = served.control(zmq.DEALER, prepare=plain(user))
            while True:  # libzmq has to find out first that the other one has gone
                await second.say("Connection.Profile", profile="test")
                with trio.move_on_after(0.05):
                    reply = await second.hear()
                    break
            assert reply.code == 401
            await second.close()


async def test_identity_that_looks_as_if_it_was_made_inherits_no_session(served: Served) -> None:
    control = await served.control().work_with("test")
    ((session, _),) = served.endpoint.sessions.items()
    await control.close()
    forged = await trio.to_thread.run_sync(Forger, served.endpoint.control.port, session.identity)
    for _ in range(200):
        reply = await trio.to_thread.run_sync(forged.ask, b"Connection.Profile", b'{"profile": "test"}')
        if reply:
            break
    forged.close()
    assert reply[-2] == b"401"


class Forger:
    """A peer without libzmq, which could not write such an identity (ZMTP 3.0, NULL)."""

    def __init__(self, port: int, identity: bytes) -> None:
        self._socket = sockets.create_connection(("127.0.0.1", port))
        self._socket.settimeout(0.1)
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
        self._socket.sendall(greeting)
        self._read(64)
        ready = b"\x05READY" + self._property(b"Socket-Type", b"DEALER") + self._property(b"Identity", identity)
        self._socket.sendall(b"\x04" + bytes([len(ready)]) + ready)
        self._rest = b""

    @staticmethod
    def _property(name: bytes, value: bytes) -> bytes:
        return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data

    def ask(self, name: bytes, body: bytes) -> list[bytes]:
        """Send a request; return what comes within a moment."""
        for flags, frame in ((1, b""), (1, name), (0, body)):
            self._socket.sendall(bytes([flags, len(frame)]) + frame)
        frames: list[bytes] = []
        try:
            while True:
                flags, size = self._read(2)
                if flags & 2:
                    size = struct.unpack(">Q", bytes([size]) + self._read(7))[0]
                frame = self._read(size)
                if not flags & 4:
                    frames.append(frame)
                    if not flags & 1:
                        return frames
        except TimeoutError:
            return []

    def close(self) -> None:
        self._socket.close()


async def test_clients_behind_a_proxy_have_sessions_of_their_own(served: Served) -> None:
    with open_proxy(f"tcp://127.0.0.1:{served.endpoint.control.port}") as address:
        port = int(address.rpartition(":")[2])
        first, second = RawControl(port), RawControl(port)
        chosen = RawControl(port, prepare=called(b"chosen by itself"))
        await first.work_with("plain")
        assert (await second.ask("Connection.Profile", profile="plain")).code == 401
        await second.log_in("other")
        assert {session.user for session in served.endpoint.sessions} == {"guest", "other"}
        assert (await first.ask("Thing.Make", name="q")).code == 200
        assert (await chosen.open()).code == 403
        for peer in (first, second, chosen):
            await peer.close()


@pytest.mark.parametrize("chained", [False, True])
async def test_client_behind_a_proxy_whose_name_looks_like_a_number_of_a_request_gets_no_session(
    served: Served, chained: bool
) -> None:
    with ExitStack() as proxies:
        address = f"tcp://127.0.0.1:{served.endpoint.control.port}"
        for _ in range(1 + chained):
            address = proxies.enter_context(open_proxy(address))
        port = int(address.rpartition(":")[2])
        first, second = (RawControl(port, prepare=called(name)) for name in (b"ada1", b"bob2"))
        for control in (first, second):
            assert (await control.open()).code == 401
        reply = await first.authorize()
        assert (reply.code, "identity" in reply.body["reason"]) == (403, True)
        assert (await second.authorize()).code == 401  # and nothing is left that it could inherit
        assert not any(session.entered for session in served.endpoint.sessions)
        correlating = RawControl(port, prepare=lambda socket: socket.setsockopt(zmq.REQ_CORRELATE, 1))
        await correlating.work_with("plain")
        for number in range(20):
            assert (await correlating.ask("Thing.Make", name=str(number))).code == 200
        for peer in (first, second, correlating):
            await peer.close()


async def test_session_and_flow_share_a_socket(nursery: trio.Nursery) -> None:
    async with serving(nursery, shared=True) as served:
        await served.broker.declare_queue("q", durable=False)
        control = await served.control().work_with("plain")
        leased = await control.lease("Writer", "q", confirm="full")
        assert leased["port"] == served.endpoint.control.port
        data = await served.claimed(leased)
        await data.send(Command("content", 7, "q", {}, body=b"x"))
        await data.until(lambda: bool(data.of("confirm")))
        assert (await control.ask("Thing.Make", name="p")).code == 200


async def test_data_on_the_control_port_and_control_on_the_data_port_get_nowhere(served: Served) -> None:
    control = await served.control().work_with("test")
    leased = await control.lease("Writer")
    stray = served.control(zmq.DEALER)
    token = leased["lease"].encode()
    await stray.socket.send([b"\x01" + bytes(7) + b"\x01" + bytes([len(token)]) + token, b""])
    await served.count("json")
    data = served.data()
    await data.say(b"", b"Connection.Open", b"{}")
    await served.count("frames")


async def test_keys_say_who_peers_are_and_leases_are_for_the_same_keys(nursery: trio.Nursery, tmp_path: Path) -> None:
    broker_keys, hers, his = make_curve_keys(), make_curve_keys(), make_curve_keys()
    write_curve_keys(tmp_path / "broker.key_secret", broker_keys)
    users = {
        "ada": User(password="x", permissions={"*": ALL}, curve_key=hers.public),
        "bob": User(password="x", permissions={"*": ALL}, curve_key=his.public),
    }

    def curve(keys: object) -> Prepare:
        def prepare(socket: "zmq.Socket[bytes]") -> None:
            socket.curve_serverkey = broker_keys.public.encode()
            socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()  # type: ignore[attr-defined]

        return prepare

    options = {"security": "curve", "key_file": str(tmp_path / "broker.key_secret"), "broker": {"users": users}}
    async with serving(nursery, **options) as served:
        control = served.control(prepare=curve(hers))
        reply = await control.open()
        assert reply.body["mechanisms"] == ["SCRAM-SHA-256", "SCRAM-SHA-512", "EXTERNAL", "PLAIN"]
        for name, code in ((b"bob", 401), (b"ada", 201)):
            response = b64encode(name).decode()
            reply = await control.ask("Connection.Authorize", mechanism="EXTERNAL", response=response)
            assert reply.code == code
        await control.done("Connection.Profile", profile="test")
        leased = await control.lease("Writer")
        assert await served.data(curve(his)).ask("lease", 1, leased["lease"]) == 403
        assert await served.data(curve(hers)).ask("lease", 1, leased["lease"]) == 200


async def test_old_peers_are_let_in_on_the_loopback_alone(nursery: trio.Nursery) -> None:
    with pytest.raises(ConfigError, match="old_zeromq"):
        MTL(host="0.0.0.0", old_zeromq=True)
    async with serving(nursery, old_zeromq=True) as served:
        with trio.fail_after(60):
            stream = await trio.open_tcp_stream("127.0.0.1", served.endpoint.control.port)
            body = b'{"protocol": {"name": "MTL", "version": 1}}'
            frames = ((1, b""), (1, b"Connection.Open"), (0, body))
            # ZMTP 1.0: the identity, which is none, and then frames with their lengths, flags among them.
            await stream.send_all(
                b"\x01\0" + b"".join(bytes([len(frame) + 1, flags]) + frame for flags, frame in frames)
            )
            heard = b""
            while b"mechanisms" not in heard:
                heard += await stream.receive_some(4096)
            await stream.aclose()


async def test_message_of_very_many_frames_is_dropped_and_its_peer_goes_on(served: Served) -> None:
    control = await served.control().work_with("plain")
    leased = await control.lease("Writer")
    data = served.data()
    await data.say(*[b"x"] * 30_000)
    await data.say(*[b""] * 30_000)
    assert await data.ask("lease", 1, leased["lease"]) == 200
    assert served.endpoint.troubles["frames"] == 2
    attacker = served.control(zmq.DEALER)
    await attacker.socket.send([b""] * 30_000)
    assert (await attacker.open()).code == 401


async def test_what_is_not_zeromq_or_is_too_large_ends_its_own_connection(served: Served) -> None:
    with trio.fail_after(60):
        async with await trio.open_tcp_stream("127.0.0.1", served.endpoint.control.port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some(4096):
                    pass
    large = served.control(zmq.DEALER)
    await large.socket.send([b"", b"Connection.Open", bytes(17 * 1024 * 1024)])
    assert (await served.control().open()).code == 401
    assert not served.endpoint.troubles
