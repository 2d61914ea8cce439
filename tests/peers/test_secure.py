"""TLS, certificates and permissions, as pika and aio-pika meet them; and no secret in any log."""

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pika
import pytest
import trustme

from triomq import AMQP, TLS, BlockingBroker, Permission, User, open_blocking_broker
from triomq.security import ALL, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS

AUTHORITY = trustme.CA()
SERVER = AUTHORITY.issue_cert("localhost")
SECRETS = ("tr0ub4dor", "c0rrecth0rse", "b4tterystaple")

KEPT = str(make_verifier(SECRETS[1].encode(), iterations=LEAST_ITERATIONS))
USERS = {
    "ada": SECRETS[0],
    "bob": User(verifiers=(KEPT,), permissions={"*": Permission("^bob", "^(bob|amq.default$)", "^bob")}),
    "cleo": User(certificate=True, permissions={"*": ALL}),
}


@pytest.fixture
def files(tmp_path: Path) -> TLS:
    certificate, key, authority = (str(tmp_path / name) for name in ("certificate.pem", "key.pem", "authority.pem"))
    SERVER.cert_chain_pems[0].write_to_path(certificate)
    SERVER.private_key_pem.write_to_path(key)
    AUTHORITY.cert_pem.write_to_path(authority)
    return TLS(certificate, key, client_ca=authority)


@pytest.fixture
def broker(files: TLS) -> Iterator[BlockingBroker]:
    with open_blocking_broker(AMQP(port=0, tls=files), AMQP(port=0), users=USERS) as broker:
        yield broker


def context(certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context


def connect(
    broker: BlockingBroker, credentials: object, *, tls: bool = True, certificate: trustme.LeafCert | None = None
) -> pika.BlockingConnection:
    parameters = pika.ConnectionParameters(
        "localhost",
        broker.listening[0 if tls else 1].port,
        credentials=credentials,
        ssl_options=pika.SSLOptions(context(certificate), "localhost") if tls else None,
    )
    return pika.BlockingConnection(parameters)


@pytest.mark.parametrize("tls", [True, False])
def test_pika_works_with_a_password_and_large_messages(broker: BlockingBroker, tls: bool) -> None:
    with connect(broker, pika.PlainCredentials("ada", SECRETS[0]), tls=tls) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        for size in (0, 1, 5_000_000):
            channel.basic_publish("", "q", b"x" * size)
            _, _, body = channel.basic_get("q", auto_ack=True)
            assert body == b"x" * size


def test_pika_logs_in_by_its_certificate(broker: BlockingBroker) -> None:
    cleo = AUTHORITY.issue_cert("cleo.example.org", common_name="cleo")
    with connect(broker, pika.credentials.ExternalCredentials(), certificate=cleo) as connection:
        connection.channel().queue_declare("q")


@pytest.mark.parametrize(
    "certificate",
    [AUTHORITY.issue_cert("x", common_name="nobody"), None, trustme.CA().issue_cert("x", common_name="cleo")],
    ids=["nobody", "none", "another authority"],
)
def test_certificate_of_nobody_is_none(broker: BlockingBroker, certificate: trustme.LeafCert | None) -> None:
    with pytest.raises(pika.exceptions.AMQPError):
        connect(broker, pika.credentials.ExternalCredentials(), certificate=certificate)


def test_aio_pika_works_by_amqps(broker: BlockingBroker) -> None:
    async def work() -> bytes:
        connection = await aio_pika.connect(
            f"amqps://ada:{SECRETS[0]}@localhost:{broker.listening[0].port}/", ssl_context=context()
        )
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("aio")
            await channel.default_exchange.publish(aio_pika.Message(b"hello" * 100_000), "aio")
            message = await queue.get()
            await message.ack()
            return bytes(message.body)

    assert asyncio.run(work()) == b"hello" * 100_000


def test_client_without_tls_gets_nowhere_at_an_endpoint_with_tls(broker: BlockingBroker) -> None:
    port = broker.listening[0].port
    with pytest.raises(pika.exceptions.AMQPError):
        pika.BlockingConnection(
            pika.ConnectionParameters("localhost", port, credentials=pika.PlainCredentials("a", "b"))
        )
    with connect(broker, pika.PlainCredentials("ada", SECRETS[0])):
        pass


def test_permissions_are_refused_on_the_channel_and_the_connection_goes_on(broker: BlockingBroker) -> None:
    with connect(broker, pika.PlainCredentials("bob", SECRETS[1])) as connection:
        channel = connection.channel()
        channel.queue_declare("bob.q")
        channel.basic_publish("", "bob.q", b"x")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.queue_declare("ada.q")
        assert closed.value.args == (
            403,
            "ACCESS_REFUSED - access to queue 'ada.q' in vhost '/' refused for user 'bob'",
        )
        assert connection.channel().basic_get("bob.q", auto_ack=True)[2] == b"x"


def test_no_secret_is_in_any_log(broker: BlockingBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "triomq")
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # what clients log is theirs
    for name, password in (("ada", SECRETS[0]), ("bob", SECRETS[1]), ("bob", SECRETS[2]), ("eve", SECRETS[2])):
        for tls in (True, False):
            try:
                with connect(broker, pika.PlainCredentials(name, password), tls=tls) as connection:
                    connection.update_secret(password, "renewal")
                    connection.channel().queue_declare(f"{name}.q")
            except pika.exceptions.AMQPError:
                pass
    said = [str(vars(record)) + record.getMessage() for record in caplog.records if record.name.startswith("triomq")]
    assert any("login refused" in text for text in said)
    assert any("connection opened" in text for text in said)
    for secret in (*SECRETS, KEPT.rpartition("$")[2]):
        assert not [text for text in said if secret in text]
