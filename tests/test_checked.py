"""Configuration made in Python is checked as configuration from a file is."""

from collections.abc import Callable
from datetime import datetime

import pytest

from triomq import AMQP, TLS, Config, Log, Permission, PolicyConfig, PolicyOptions, Synchronise, User, UserLimits
from triomq.app.validation import SettingSources, build
from triomq.clients import Reconnect
from triomq.errors import ConfigError

WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: AMQP(port=99999), "port: found 99999, expected int <= 65535"),
    (lambda: AMQP(port="5672"), "port: found '5672', expected int"),
    (lambda: AMQP(heartbeat=-3), "heartbeat: found -3, expected int >= 0"),
    (lambda: AMQP(channel_max=0), "channel_max: found 0, expected int >= 1"),
    (lambda: AMQP(frame_max=1), "frame_max: found 1, expected int >= 4096"),
    (lambda: AMQP(tls="cert.pem"), "tls: found 'cert.pem', expected TLS"),
    (lambda: AMQP(tls=TLS), r"tls: found the class TLS \(write TLS\(…\) for one of it\), expected TLS"),
    (lambda: AMQP(virtual_hosts={"/": 5}), r"virtual_hosts\[...\]: found something in it, expected str"),
    (lambda: AMQP(allow_plain_insecure="no"), "found 'no', expected bool"),
    (lambda: TLS("cert.pem", client_name="cn"), "allowed are 'common_name', 'subject_alternative_name'"),
    (lambda: Synchronise("amqp://x", prefetch=0), "prefetch: found 0, expected int >= 1"),
    (lambda: Synchronise("amqp://x", pipe_type="pipes"), "found 'pipes', allowed are 'pipe', 'fifo'"),
    (lambda: Synchronise(5), r"url: found something of type int \(not shown"),
    (lambda: Config(endpoints=(5672,)), r"endpoints\[0\]: found something in it, expected EndpointConfig"),
    (lambda: Config(domains=()), "domains: found .*, expected array of length >= 1"),
    (lambda: Config(drain=-1), "drain: found -1, expected float >= 0"),
    (lambda: Config(queue_memory=8), "queue_memory: found 8, expected int >= 65536"),
    (lambda: Config(store_host="disk"), "found 'disk', allowed are 'process', 'thread'"),
    (lambda: Log(level="loud"), "level: found 'loud', allowed are 'debug', 'info', 'warning', 'error'"),
    (lambda: User(password=5), r"password: found something of type int \(not shown"),
    (lambda: User("x", expires=datetime(2030, 1, 1)), "expires: .* with a timezone"),
    (lambda: Permission(configure=5), "configure: found 5, expected str"),
    (lambda: UserLimits(connections=-1), "connections: found -1, expected int >= 0 or 'unlimited'"),
    (lambda: PolicyConfig("p", "q", {}, apply_to="topics"), "allowed are 'queues', 'classic_queues'"),
    (lambda: PolicyOptions(max_length="5"), "max_length: found '5', expected int"),
    (lambda: Reconnect(delay="1"), "delay: found '1', expected float"),
]


@pytest.mark.parametrize(("make", "text"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_wrong_field_is_refused_with_what_is_allowed(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        make()
    assert "secret" not in str(caught.value)


def test_wrong_field_in_a_file_is_refused_with_the_same_text() -> None:
    with pytest.raises(ConfigError, match="port: found 99999, expected int <= 65535"):
        build({"type": "amqp", "port": 99999}, AMQP, SettingSources("", {}))


def test_right_fields_are_left_as_they_are() -> None:
    config = Config(endpoints=(AMQP(port=0), AMQP(port=0)), users={"ada": User("secret")}, drain=1, policies=())
    assert config.drain == 1
    assert config.endpoints[0] == AMQP(port=0)
    assert config.users["ada"].password == "secret"
