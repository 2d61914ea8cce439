import pytest

from triomq.core import CORE_CODEC, Codecs, Head, Properties, QueueMessage, amend_core, decode_core, traits_of


def test_codecs_decode_by_the_tag_of_the_head() -> None:
    codecs = Codecs()
    codecs.register(7, lambda encoded: Properties(type=encoded.decode()), amend_core)
    assert codecs.decode(QueueMessage(Head(properties_stop=3, traits=traits_of(codec=7)), b"abcbody")) == Properties(
        type="abc"
    )
    assert codecs.decode(QueueMessage(Head(), b"body")) == Properties()


@pytest.mark.parametrize("codec", [CORE_CODEC, 7])
def test_codec_tag_is_never_given_to_two(codec: int) -> None:
    codecs = Codecs()
    codecs.register(7, decode_core, amend_core)
    codecs.register(7, decode_core, amend_core)
    with pytest.raises(ValueError, match=f"codec tag {codec} is taken already"):
        codecs.register(codec, lambda properties: Properties(), amend_core)


def test_properties_of_an_unknown_wire_are_none_and_stay_as_they_came() -> None:
    codecs, message = Codecs(), QueueMessage(Head("e", "k", 0, 4, 1, traits=traits_of(codec=77)), b"blue")
    assert codecs.read(message) == Properties()
    assert codecs.amend(message, {"a": 1}) == (b"blue", 0)
