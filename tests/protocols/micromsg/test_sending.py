"""What of a message's properties a peer with extensions gets to see."""

from protocols.micromsg.wire import bodies, flat, message, named, pair, sent, serving, talk
from triomq.protocols.micromsg import DEFAULT_OPTIONAL, MicroMessageRun, Settings, encode_properties
from triomq.protocols.micromsg.sending import PropertyTranslator
from triomq.protocols.micromsg.shapes import REMEMBERED

JSON = b"content-type:Tapplication%2Fjson;"


def translator() -> PropertyTranslator:
    return PropertyTranslator(has_json=True, has_dotnet=True, is_typed=True)


def test_properties_that_extensions_say_are_left_out() -> None:
    found = translator().translate(b"a:N1;" + JSON + b"type:TA.B;")
    assert (found.octets, found.type_name) == (b"\0\5a:N1;", b"A.B")


def test_other_properties_stay_as_they_are() -> None:
    octets = b"A:N1 ; content-type:Ttext%2Fplain;type:N5;"
    found = translator().translate(octets)
    assert (found.octets, found.type_name) == (len(octets).to_bytes(2, "big") + octets, b"")
    plain = PropertyTranslator(has_json=False, has_dotnet=False, is_typed=True)
    assert plain.translate(JSON).octets[2:] == JSON


def test_type_that_is_too_long_for_a_frame_stays_a_property() -> None:
    octets = encode_properties({"type": "x" * 1025})
    assert translator().translate(octets).octets[2:] == octets


def test_translations_are_remembered_within_bounds() -> None:
    table = translator()
    first = table.translate(JSON)
    assert table.translate(JSON) is first
    for number in range(REMEMBERED):
        table.translate(b"a:N%d;" % number)
    assert table.translate(JSON) is not first
    long = b"a:T" + b"x" * 2000
    assert table.translate(long) is not table.translate(long)


def test_messages_with_types_come_as_they_went() -> None:
    one, other = pair("json", "dotnet")
    for name in ("A", "A", "", "B"):
        one.send_messages("queue", encode_properties({"type": name, "a": 1} if name else {"a": 1}), [b"{}"])
    heard = flat(talk(one, other)[1])
    json = {"content-type": "application/json"}
    assert [each[2] for each in heard] == [  # type: ignore[index]
        {"a": 1, **json, "type": "A"},
        {"a": 1, **json, "type": "A"},
        {"a": 1, **json},
        {"a": 1, **json, "type": "B"},
    ]


def test_contents_are_translated_each_by_its_properties() -> None:
    one, other = pair(client_settings=Settings(optional=(*DEFAULT_OPTIONAL, *named("dotnet"))))
    plain = serving(b"batch-ack:max-count=100;dotnet", Settings(optional=named("batch-ack", "dotnet")))
    contents = []
    for name in "AABA":
        octets = encode_properties({"type": name})
        contents.append(len(octets).to_bytes(2, "big") + octets + b"\2hi")
    stop = 2 + len(encode_properties({"type": "A"}))
    plain.send_contents("queue", contents, properties_stop=stop, body_start=stop + 1)
    expected = [
        b"\2\2\1A" + message(1) + message(2),
        b"\2\2\1B" + message(3),
        b"\2\2\1A" + message(4),
    ]
    assert sent(plain) == b"".join(expected)
    assert plain.sent == 4
    other.send_contents("queue", contents, properties_stop=stop, body_start=stop + 1)
    (run,) = talk(one, other)[0]
    assert isinstance(run, MicroMessageRun)
    assert run.contents == contents  # no extension says it


def test_large_contents_are_translated_before_they_are_cut() -> None:
    settings = Settings(optional=(*DEFAULT_OPTIONAL, *named("json")), max_payload=256)
    one, other = pair(client_settings=settings, server_settings=settings)
    content = len(JSON).to_bytes(2, "big") + JSON + (600).to_bytes(4, "big") + b"x" * 600
    one.send_contents("queue", [content], properties_stop=2 + len(JSON), body_start=6 + len(JSON))
    octets = sent(one)
    assert JSON not in octets
    other.receive_data(octets)
    assert bodies(other.events()) == [b"x" * 600]
