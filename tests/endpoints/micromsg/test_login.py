"""Who a client is: by its certificate, by x-sasl, or the one user that is configured."""

import ssl
from pathlib import Path

import pytest
import trio
import trustme
from scramp import ScramClient

from endpoints.conftest import counts
from endpoints.micromsg.client import (
    USUAL,
    MicroMsgPeer,
    dial,
    listening,
    logging_in,
    micromsg_endpoint,
    open_micromsg_broker,
)
from endpoints.micromsg.conftest import USERS
from triomq.app import Broker, User
from triomq.endpoints import TLS
from triomq.errors import ConfigError
from triomq.protocols.micromsg import (
    HandshakeCompleted,
    HandshakeExtension,
    SASLAccepted,
    SASLChallenged,
    Settings,
)
from triomq.security import ALL, UserLimits

AUTHORITY = trustme.CA()


def issue(folder: Path) -> TLS:
    certificate = AUTHORITY.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    AUTHORITY.cert_pem.write_to_path(folder / "authority.pem")
    return TLS(str(folder / "certificate.pem"), str(folder / "key.pem"), client_ca=str(folder / "authority.pem"))


async def over_tls(broker: Broker, name: str = "", settings: Settings | None = None) -> MicroMsgPeer:
    """Connect with the certificate of a user, or with none."""
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    if name:
        AUTHORITY.issue_cert(common_name=name).configure_cert(context)
    stream = trio.SSLStream(
        await trio.open_tcp_stream("127.0.0.1", broker.listening[1].port),
        context,
        server_hostname="localhost",
        https_compatible=True,
    )
    await stream.do_handshake()
    return MicroMsgPeer(stream, settings)


async def test_user_comes_by_a_certificate(tmp_path: Path) -> None:
    async with open_micromsg_broker(listening(tls=issue(tmp_path)), users=USERS) as broker:
        await broker.declare_queue("q", durable=False)
        peer = await (await over_tls(broker, "ann")).open()
        await peer.send("queue/q", b"x", user_id="ann")
        await peer.hang_up()
        nobody = await (await over_tls(broker, "mallory")).open()
        assert (await nobody.fails())[0] == 401
        plain = await (await over_tls(broker)).open()
        await plain.send("queue/q", b"x", user_id="guest")
        assert await counts(broker, "q") == (2, 0)
        for each in nobody, plain:
            await each.hang_up()


async def test_user_with_a_certificate_may_log_in_by_external(tmp_path: Path) -> None:
    async with open_micromsg_broker(listening(tls=issue(tmp_path), user=""), users=USERS) as broker:
        await broker.declare_queue("q", durable=False)
        peer = await over_tls(broker, "ann", logging_in())
        completed = await peer.expect(HandshakeCompleted)
        (sasl,) = [each for each in completed.extensions if each.name == "x-sasl"]
        assert "EXTERNAL" in sasl.properties["mechanisms"].split()
        peer.engine.start_login("EXTERNAL", b"")
        await peer.expect(SASLAccepted)
        await peer.send("queue/q", b"x", user_id="ann")
        await peer.hang_up()


async def test_user_logs_in_by_scram() -> None:  # in real time: a thread works it out
    async with open_micromsg_broker(users=USERS) as broker:
        await broker.declare_queue("q", durable=False)
        peer = dial(broker, logging_in())
        await peer.expect(HandshakeCompleted)
        scram = ScramClient(["SCRAM-SHA-256"], "ann", "ann")
        peer.engine.start_login("SCRAM-SHA-256", scram.get_client_first().encode())
        scram.set_server_first((await peer.expect(SASLChallenged)).challenge.decode())
        peer.engine.respond(scram.get_client_final().encode())
        scram.set_server_final((await peer.expect(SASLChallenged)).challenge.decode())
        peer.engine.respond(b"")
        await peer.expect(SASLAccepted)
        await peer.send("queue/q", b"x", user_id="ann")


async def test_user_logs_in_by_plain_or_not_at_all(broker: Broker) -> None:
    known = await dial(broker, logging_in()).open("ann")
    await known.send("queue/q", b"x", user_id="ann")
    unknown = await dial(broker).open()
    await unknown.send("queue/q", b"x", user_id="guest")


async def test_wrong_password_ends_the_connection(broker: Broker) -> None:
    peer = dial(broker, logging_in())
    with pytest.raises(AssertionError):
        await peer.open("ann", "wrong")
    assert peer.error is not None
    assert (peer.error.code, peer.error.text.split(";")[0]) == (401, "log-in by 'PLAIN' is refused")


async def test_mechanism_that_is_not_offered_ends_the_connection(broker: Broker) -> None:
    peer = dial(broker, logging_in())
    await peer.expect(HandshakeCompleted)
    peer.engine.start_login("EXTERNAL", b"")
    assert (await peer.fails())[0] == 401


async def test_configured_user_that_is_not_there_is_refused(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(user="till"), users=USERS) as broker:
        peer = await dial(broker).open()
        assert (await peer.fails())[0] == 403


async def test_user_that_has_all_its_connections_is_told_so(broker: Broker) -> None:
    limited = User(password="ann", permissions={"*": ALL}, limits=UserLimits(connections=1))
    broker.set_users({**USERS, "ann": limited})
    first = await dial(broker, logging_in()).open("ann")
    second = await dial(broker, logging_in()).open("ann")
    assert (await second.fails())[0] == 503
    await first.send("queue/q", b"x")


async def test_removed_user_is_put_out(broker: Broker) -> None:
    peer = await dial(broker, logging_in()).open("ann")
    broker.set_users({"guest": USERS["guest"]})
    assert (await peer.fails())[0] == 403


async def test_passwords_in_plain_text_are_refused_where_that_is_configured(virtual_time: None) -> None:
    config = listening(user="", allow_plain_insecure=False)
    async with open_micromsg_broker(config, users=USERS) as broker:
        ours, theirs = trio.testing.memory_stream_pair()
        micromsg_endpoint(broker).listener.connect_stream(theirs, "192.0.2.1:5000")
        peer = MicroMsgPeer(ours, logging_in())
        completed = await peer.expect(HandshakeCompleted)
        (sasl,) = [each for each in completed.extensions if each.name == "x-sasl"]
        assert "PLAIN" not in sasl.properties["mechanisms"].split()


async def test_log_in_that_takes_too_long_ends_without_a_word(broker: Broker) -> None:
    peer = dial(broker, logging_in())
    await peer.expect(HandshakeCompleted)
    began = trio.current_time()
    await peer.until(lambda: peer.ended)
    assert 10 <= trio.current_time() - began < 12
    assert peer.error is None


async def test_client_need_not_agree_to_acks_to_log_in(broker: Broker) -> None:
    settings = Settings(required=(HandshakeExtension("x-sasl"),), optional=USUAL[2:])
    peer = await dial(broker, settings).open("ann")
    peer.publish("queue/q", b"x")
    await peer.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q") == (1, 0)


async def test_broker_does_not_start_where_everybody_could_come_in() -> None:
    with pytest.raises(ConfigError, match="open to other machines"):
        listening(host="0.0.0.0", user="guest")
