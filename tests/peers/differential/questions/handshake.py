"""From the first octets to connection.open-ok."""

import struct

from pamqp import commands

from ...raw import PROTOCOL_HEADER, raw_frame
from ..question import Asking, Group, Lines
from ..session import Session, shown

Basic, Channel, Connection = commands.Basic, commands.Channel, commands.Connection

GROUP = Group("handshake")


def header(octets: bytes) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open(handshake=False, channel=False)
        peer.send_steps(octets)
        first = peer.take(8)
        yield "connection.start" if first and first.startswith(b"\x01") else repr(first)

    return ask


for _title, _octets in {
    "the header of 0-8, AMQP 1 1 8 0": b"AMQP\x01\x01\x08\x00",
    "the header of 0-9, AMQP 1 1 0 9": b"AMQP\x01\x01\x00\x09",
    "the header of 1.0": b"AMQP\x00\x01\x00\x00",
    "the header of 1.0 with SASL": b"AMQP\x03\x01\x00\x00",
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "octets of nothing": b"\x00" * 8,
}.items():
    GROUP.add(_title, header(_octets))


@GROUP("what the server says of itself")
def properties(session: Session) -> Lines:
    said = session.open().server_properties
    for name in ("product", "version", "platform", "cluster_name"):
        yield f"{name}: {type(said[name]).__name__}"
    yield f"version is dotted numbers: {all(part.isdigit() for part in said['version'].split('.'))}"


@GROUP("the capabilities that it announces")
def capabilities(session: Session) -> Lines:
    said = session.open().server_properties["capabilities"]
    yield shown({name: value for name, value in said.items() if not name.startswith("triomq.")})


@GROUP("the version and the locales of connection.start")
def start(session: Session) -> Lines:
    peer = session.open(handshake=False, channel=False)
    peer.send_steps(PROTOCOL_HEADER)
    said = peer.expect(Connection.Start)
    yield f"{said.version_major}-{said.version_minor} {said.locales}"
    yield f"PLAIN: {'PLAIN' in said.mechanisms.split()}, AMQPLAIN: {'AMQPLAIN' in said.mechanisms.split()}"


@GROUP("the limits that it offers")
def offer(session: Session) -> Lines:
    yield str(dict(session.open().offer))


def login(capable: bool, **changes: str) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open(handshake=False, channel=False)
        peer.start({"authentication_failure_close": capable}, **changes)
        yield peer.receive()[0]

    return ask


AMQPLAIN = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"

for _title, _asking in {
    "a wrong password, and the client can hear it": login(True, response="\0guest\0wrong"),
    "a wrong password, and the client cannot": login(False, response="\0guest\0wrong"),
    "a user that is not there": login(True, response="\0nobody\0guest"),
    "a mechanism that is not there": login(True, mechanism="NOPE"),
    "a mechanism that is not there, and the client cannot hear": login(False, mechanism="NOPE"),
    "EXTERNAL without TLS": login(True, mechanism="EXTERNAL", response="guest"),
    "AMQPLAIN": login(True, mechanism="AMQPLAIN", response=AMQPLAIN.decode("latin-1")),
    "PLAIN with too little in it": login(True, response="guest"),
    "PLAIN that acts for another": login(True, response="other\0guest\0guest"),
    "another locale": login(True, locale="nb_NO"),
}.items():
    GROUP.add(_title, _asking)


def vhost(name: str) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open(handshake=False, channel=False)
        peer.start()
        peer.tune()
        yield peer.ask(Connection.Open(virtual_host=name), channel=0)

    return ask


GROUP.add("the virtual host /", vhost("/"))
GROUP.add("a virtual host that is not there", vhost("/nope"))
GROUP.add("a virtual host without a name", vhost(""))


def tuned(**limits: int) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open(handshake=False, channel=False)
        peer.start()
        peer.tune(**limits)
        peer.send_steps(raw_frame(1, 0, struct.pack(">HHBBB", 10, 40, 1, 0x2F, 0) + b"\0"))
        yield peer.receive()[0].split(" known_hosts")[0]

    return ask


for _title, _limits in {
    "tune-ok with frame-max 100": {"frame_max": 100},
    "tune-ok with frame-max 4095": {"frame_max": 4095},
    "tune-ok with frame-max 4096": {"frame_max": 4096},
    "tune-ok with frame-max 0": {"frame_max": 0},
    "tune-ok with frame-max above the offer": {"frame_max": 131073},
    "tune-ok with channel-max above the offer": {"channel_max": 2048},
    "tune-ok with channel-max 0": {"channel_max": 0},
    "tune-ok with heartbeat above the offer": {"heartbeat": 600},
}.items():
    GROUP.add(_title, tuned(**_limits))


@GROUP("a channel above channel-max 3")
def above(session: Session) -> Lines:
    peer = session.open(channel=False, channel_max=3)
    yield peer.ask(Channel.Open(), channel=17)


@GROUP("more channels than channel-max 3")
def too_many(session: Session) -> Lines:
    peer = session.open(channel=False, channel_max=3)
    for number in (1, 2, 3, 4):
        yield peer.ask(Channel.Open(), channel=number)


@GROUP("a channel is free again, and the limit is not reached")
def free_again(session: Session) -> Lines:
    peer = session.open(channel=False, channel_max=1)
    for _ in range(3):
        yield peer.ask(Channel.Open())
        yield peer.ask(Channel.Close(200, "", 0, 0))


@GROUP("a frame larger than frame-max 4096")
def large(session: Session) -> Lines:
    peer = session.open(frame_max=4096)
    peer.send_steps(
        Basic.Publish(), raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 5000, 0)), raw_frame(3, 1, b"x" * 5000)
    )
    yield peer.receive()[0]


@GROUP("a frame above 4096 octets before tune")
def large_before_tune(session: Session) -> Lines:
    peer = session.open(handshake=False, channel=False)
    peer.start(response="\0guest\0guest" + "x" * 6000)
    yield peer.receive()[0]


@GROUP("a delivery is cut into the client's frames")
def cut(session: Session) -> Lines:
    publisher, consumer = session.open(), session.open(frame_max=4096)
    consumer.declare_queue(name=session.q, exclusive=False, auto_delete=True)
    consumer.do(Basic.Consume(queue=session.q, no_ack=True))
    publisher.send_steps(Basic.Publish(routing_key=session.q), raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 9000, 0)))
    publisher.send_steps(raw_frame(3, 1, b"x" * 9000))
    for _ in range(5):
        found = consumer.read()
        yield f"{found.kind} {len(found.payload) if found.kind == 3 else ''}" if found else "reset"


@GROUP("connection.update-secret")
def secret(session: Session) -> Lines:
    yield session.open().ask(Connection.UpdateSecret(new_secret="guest", reason="test"), channel=0)


@GROUP("close from the client")
def close(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(Connection.Close(200, "bye", 0, 0), channel=0)


@GROUP("open a second time")
def open_twice(session: Session) -> Lines:
    yield session.open().ask(Connection.Open(), channel=0)


@GROUP("tune-ok before start-ok")
def out_of_order(session: Session) -> Lines:
    peer = session.open(handshake=False, channel=False)
    peer.send_steps(PROTOCOL_HEADER)
    peer.expect(Connection.Start)
    yield peer.ask(Connection.TuneOk(0, 131072, 0), channel=0)
