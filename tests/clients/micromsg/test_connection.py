"""Connecting, logging in, coming back, and ending."""

import pytest
import trio
import trio.testing
from scramp import ScramMechanism

from clients.micromsg.stub import NOBODY, SETTINGS, SOON, Place, both, open_connection, open_pair
from triomq.clients import HandshakeExtension, MicroMsgUrl, Reconnect
from triomq.errors import AccessRefused, Disconnected, LocalProtocolError, Refused, RemoteProtocolError, ResourceLocked
from triomq.protocols.micromsg import ExtensionReceived, SASLResponded, SASLStarted, Settings

ADA = MicroMsgUrl(user="ada", password="secret", identity="test", timeout=5.0)
WITH_LOGIN = HandshakeExtension("x-sasl")


def place_for_users(*mechanisms: str) -> Place:
    return Place(Settings(identity="stub", heartbeat=0, required=(WITH_LOGIN,), mechanisms=mechanisms))


# The handshake and the log-in


async def test_what_was_agreed_is_told(autojump_clock: object) -> None:
    async with open_pair(Place()) as (micromsg, peer):
        assert micromsg.peer_identity == "stub"
        assert peer.engine.peer_identity == "test"
        assert [each.name for each in micromsg.extensions] == ["batch-ack", "pub-sub", "x-reply"]
        assert repr(micromsg) == "<MicroMsgConnection to 127.0.0.1:8334>"


async def test_best_mechanism_that_the_broker_offers_is_taken(autojump_clock: object) -> None:
    place = place_for_users("PLAIN")

    async def let_in() -> None:
        peer = await place.accept()
        started = await peer.expect(SASLStarted)
        assert (started.mechanism, started.response) == ("PLAIN", b"\0ada\0secret")
        peer.engine.welcome()
        assert await peer.read(1) == [b"x"]
        await peer.ack(1)

    async with both(let_in), open_connection(place, ADA) as micromsg:
        await micromsg.publish("queue/jobs", b"x")


@pytest.mark.parametrize("says_last", ["with the outcome", "in a challenge"])
async def test_scram_shows_both_sides_that_the_other_one_knows_the_password(says_last: str) -> None:
    # In real time, for a thread works it out.
    place = place_for_users("PLAIN", "SCRAM-SHA-256")
    scram = ScramMechanism("SCRAM-SHA-256")
    server = scram.make_server(lambda user: scram.make_auth_info({"ada": "secret"}[user]))

    async def let_in() -> None:
        peer = await place.accept()
        started = await peer.expect(SASLStarted)
        assert started.mechanism == "SCRAM-SHA-256"
        server.set_client_first(started.response.decode())
        peer.engine.challenge(server.get_server_first().encode())
        server.set_client_final((await peer.expect(SASLResponded)).response.decode())
        last = server.get_server_final().encode()
        if says_last == "in a challenge":
            peer.engine.challenge(last)
            assert await peer.expect(SASLResponded) == SASLResponded(b"")
            last = b""
        peer.engine.welcome(last)
        await peer.flush()
        while await peer.stream.receive_some():
            pass
        await peer.hang_up()

    async with both(let_in), open_connection(place, ADA) as micromsg:
        assert micromsg.statistics().is_connected


async def test_broker_that_does_not_know_the_password_is_not_trusted(autojump_clock: object) -> None:
    place = place_for_users("SCRAM-SHA-256")

    async def let_anybody_in() -> None:
        peer = await place.accept()
        await peer.expect(SASLStarted)
        peer.engine.welcome()
        await peer.flush()

    async with both(let_anybody_in):
        with pytest.raises(AccessRefused, match="has not shown that it knows the password"):
            async with open_connection(place, ADA):
                pass


async def test_wrong_password_is_refused_at_once_and_later_for_good(autojump_clock: object) -> None:
    place = place_for_users("PLAIN")

    async def refuse() -> None:
        peer = await place.accept()
        await peer.expect(SASLStarted)
        peer.engine.fail(403, "no such user, or another password")
        await peer.flush()

    async with both(refuse):
        with pytest.raises(AccessRefused, match="403 no such user"):
            async with open_connection(place, ADA):
                pass

    async def let_in_once() -> None:
        peer = await place.accept()
        await peer.expect(SASLStarted)
        peer.engine.welcome()
        await peer.flush()
        await peer.hang_up()
        await refuse()

    async with both(let_in_once), open_connection(place, ADA) as micromsg:
        await micromsg.wait_disconnected()
        with pytest.raises(AccessRefused, match="403 no such user"):
            await micromsg.wait_connected()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (ADA, "takes EXTERNAL here; come over TLS"),
        (MicroMsgUrl(auth_mechanism="plain", user="ada", identity="test"), "and the URL asks for plain"),
    ],
)
async def test_mechanism_that_is_not_offered_is_an_error(autojump_clock: object, url: MicroMsgUrl, reason: str) -> None:
    place = place_for_users("EXTERNAL")

    async def answer() -> None:
        peer = await place.came.receive()
        peer.engine.receive_data(bytes(await peer.stream.receive_some()))
        await peer.flush()

    async with both(answer):
        with pytest.raises(AccessRefused, match=reason):
            async with open_connection(place, url):
                pass


async def test_peer_that_knows_no_users_is_an_error_of_its_own(autojump_clock: object) -> None:
    place = Place()

    async def refuse() -> None:
        peer = await place.came.receive()
        peer.engine.receive_data(bytes(await peer.stream.receive_some()))
        await peer.flush()

    async with both(refuse):
        with pytest.raises(Refused, match=r"501 .*x-sasl"):
            async with open_connection(place, ADA):
                pass


async def test_peer_that_says_nothing_is_given_up(autojump_clock: object) -> None:
    place = Place()
    began = trio.current_time()
    with pytest.raises(Disconnected, match=r"does not let us in within 5 s; .* \?timeout="):
        async with open_connection(place, ADA):
            pass
    assert trio.current_time() - began == 5


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "hung up during the handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n", "127.0.0.1:8334"),
        (b"\x04\x09no thanks", "does not let us in: no thanks"),
    ],
)
async def test_what_is_no_peer_is_an_error(autojump_clock: object, octets: bytes, reason: str) -> None:
    place = Place()

    async def answer() -> None:
        peer = await place.came.receive()
        await peer.stream.receive_some()
        await peer.stream.send_all(octets)
        await peer.hang_up()

    async with both(answer):
        with pytest.raises((Disconnected, Refused, RemoteProtocolError), match=reason):
            async with open_connection(place):
                pass


# Coming back


async def test_peer_that_is_away_is_tried_ever_more_slowly(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):
        lost = trio.current_time()
        place.is_open = False
        await peer.hang_up()
        await trio.sleep(40)
        assert [time - lost for time in place.tries[1:]] == [1, 3, 7, 15, 23, 31, 39]
        assert not micromsg.statistics().is_connected
        place.is_open = True
        again = await place.accept()
        await again.flush()
        await micromsg.wait_connected()
        assert micromsg.statistics().reconnects == 1


async def test_connection_is_given_up_after_as_many_tries_as_were_allowed(autojump_clock: object) -> None:
    place = Place()
    policy = Reconnect(attempts=2, jitter=0.0)
    async with open_pair(place, policy=policy) as (micromsg, peer), micromsg.read_pushed() as pushed:
        place.is_open = False
        await peer.hang_up()
        with pytest.raises(Disconnected, match="nobody listens"):
            await anext(pushed)
        with pytest.raises(Disconnected, match="nobody listens"):
            await micromsg.publish("queue/jobs", b"x")
    assert len(place.tries) == 3


async def test_peer_that_has_no_room_when_we_come_back_is_tried_again(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):
        await peer.hang_up()
        for _ in range(3):
            busy = await place.came.receive()
            busy.engine.fail(503, "too many connections")
            await busy.flush()
            await busy.hang_up()
        await (await place.accept()).flush()
        await micromsg.wait_connected()
        assert len(place.tries) == 5


@pytest.mark.parametrize("octets", [b"\x04\x0d403 elsewhere", b"\x04\x09no thanks"])
async def test_peer_that_refuses_us_when_we_come_back_is_given_up(autojump_clock: object, octets: bytes) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):
        await peer.hang_up()
        again = await place.came.receive()
        await again.stream.send_all(octets)
        await again.hang_up()
        await micromsg.wait_disconnected()
        with pytest.raises(Refused, match=r"403 elsewhere|no thanks"):
            await micromsg.wait_connected()


async def test_peer_that_falls_silent_is_lost(autojump_clock: object) -> None:
    place = Place(Settings(identity="stub", heartbeat=10.0))
    async with open_pair(place) as (micromsg, _):
        began = trio.current_time()
        await micromsg.wait_disconnected()
        assert 25 <= trio.current_time() - began <= 40


async def test_connection_that_a_newer_one_takes_over_does_not_fight_back(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):
        peer.engine.fail(409, "a newer connection of the same user and identity is here")
        await peer.flush()
        await peer.hang_up()
        await micromsg.wait_disconnected()
        with pytest.raises(ResourceLocked, match="409 a newer connection"):
            await micromsg.wait_connected()
        assert len(place.tries) == 1


async def test_peer_that_breaks_a_rule_ends_it_for_good(autojump_clock: object) -> None:
    async with open_pair(Place()) as (micromsg, peer):
        await peer.stream.send_all(b"\xff")
        with pytest.raises(RemoteProtocolError, match="does not keep to MicroMsg2: 400"):
            async with micromsg.read_pushed() as pushed:
                await anext(pushed)


# Extensions of one's own


async def test_extension_of_ones_own_goes_both_ways(autojump_clock: object) -> None:
    mine = HandshakeExtension("x-mine", {"color": "red"})
    place = Place(Settings(identity="stub", heartbeat=0, optional=(*SETTINGS.optional, HandshakeExtension("x-mine"))))
    heard = list[tuple[str, bytes]]()

    async def answer() -> None:
        peer = await place.accept()
        assert await peer.expect(ExtensionReceived) == ExtensionReceived("x-mine", b"there?")
        peer.engine.send_extension("x-mine", b"here")
        await peer.flush()
        assert await peer.read(1) == [b"x"]
        await peer.ack(1)

    def hear(name: str, payload: bytes) -> None:
        heard.append((name, payload))

    async with both(answer), open_connection(place, NOBODY, SOON, (mine,), hear) as micromsg:
        await micromsg.send_extension("x-mine", b"there?")
        await micromsg.publish("queue/jobs", b"x")
        assert heard == [("x-mine", b"here")]
        with pytest.raises(LocalProtocolError, match="not agreed"):
            await micromsg.send_extension("x-yours", b"")


# The end


async def test_last_acks_are_sent_before_the_end(autojump_clock: object) -> None:
    place = Place()
    async with open_pair(place) as (micromsg, peer):
        await peer.send("", b"a")
        async with micromsg.read_pushed() as pushed:
            (await anext(pushed)).accept()
    peer.engine.receive_data(bytes(await peer.stream.receive_some()))
    assert [type(event).__name__ for event in peer.engine.events()][:1] == ["MessagesAcked"]


async def test_error_in_the_block_comes_out_of_it_bare(autojump_clock: object) -> None:
    place = Place()

    async def accept() -> None:
        await (await place.accept()).flush()

    async with both(accept):
        with pytest.raises(ZeroDivisionError):
            async with open_connection(place):
                raise ZeroDivisionError
