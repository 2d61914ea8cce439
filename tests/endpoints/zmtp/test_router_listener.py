"""Who may come to a ROUTER, and as whom; driven by the toy, with real sockets."""

import pytest
import trio
import zmq

from endpoints.toys.router import RouterToyClient, RouterToyEndpoint, RouterToys
from endpoints.toys.router_peer import RouterPeer
from triomq.actors import ChildSpec
from triomq.app import Broker, User, open_broker
from triomq.endpoints.zmtp import Admission
from triomq.errors import ConfigError
from triomq.security import ALL
from triomq.transports import CurveKeys, make_curve_keys

BROKER, ADA, STRANGER = make_curve_keys(), make_curve_keys(), make_curve_keys()
USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "ada": User(curve_key=ADA.public, permissions={"*": ALL}),
}
NULL = Admission(mechanism="NULL", user="guest")
CURVE = Admission(mechanism="CURVE", secret_key=BROKER.secret)


async def start(broker: Broker, admission: Admission, host: str | list[str] = "127.0.0.1") -> RouterToyEndpoint:
    config = RouterToys(host=host, port=0, admission=admission)
    ref = await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name="toy"))
    assert isinstance(ref.actor, RouterToyEndpoint)
    return ref.actor


def users_of(toy: RouterToyEndpoint) -> list[str]:
    return [ref.actor.user for ref in toy.children.values() if isinstance(ref.actor, RouterToyClient)]


def with_keys(socket: zmq.Socket[bytes], keys: CurveKeys) -> None:
    socket.curve_serverkey = BROKER.public.encode()
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()


async def test_peers_without_a_mechanism_are_the_configured_user(nursery: trio.Nursery) -> None:
    async with open_broker(users=USERS) as broker:
        toy = await start(broker, NULL)
        peer = RouterPeer(toy.listener.port, "")
        nursery.start_soon(peer.run)
        assert (await peer.call(b"HELLO"))[0] == b"OK"
        assert users_of(toy) == ["guest"]


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "::", "example.org", ["127.0.0.1", "0.0.0.0"]])
async def test_peers_have_to_say_who_they_are_where_others_may_connect(host: str | list[str]) -> None:
    async with open_broker(users=USERS) as broker:
        with pytest.raises(ConfigError, match=r"choose PLAIN or CURVE, or listen on 127\.0\.0\.1"):
            await start(broker, NULL, host)


async def test_peer_is_the_user_that_owns_its_key(nursery: trio.Nursery) -> None:
    async with open_broker(users=USERS) as broker:
        toy = await start(broker, CURVE)
        peer = RouterPeer(toy.listener.port, "", prepare=lambda socket: with_keys(socket, ADA))
        nursery.start_soon(peer.run)
        assert await peer.is_let_in()
        assert (await peer.call(b"HELLO"))[0] == b"OK"
        assert users_of(toy) == ["ada"]


async def test_key_of_no_user_is_refused(nursery: trio.Nursery) -> None:
    async with open_broker(users=USERS) as broker:
        toy = await start(broker, CURVE)
        stranger = RouterPeer(toy.listener.port, "", prepare=lambda socket: with_keys(socket, STRANGER))
        nursery.start_soon(stranger.run)
        assert not await stranger.is_let_in()


async def test_password_does_not_help_where_keys_are_wanted(nursery: trio.Nursery) -> None:
    async with open_broker(users=USERS) as broker:
        toy = await start(broker, CURVE)
        peer = RouterPeer(toy.listener.port, "guest")
        nursery.start_soon(peer.run)
        with trio.move_on_after(0.2):
            assert not await peer.is_let_in()
        assert users_of(toy) == []


def test_secret_key_stays_out_of_logs() -> None:
    assert BROKER.secret not in repr(CURVE)
