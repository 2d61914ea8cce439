"""What waits to be written."""

from triomq.protocols.pieces import Outbox


def test_pieces_are_counted_until_they_are_taken() -> None:
    outbox = Outbox()
    outbox.put(b"ab", memoryview(b"cde"))
    assert outbox.unsent == 5
    assert outbox.take() == [b"ab", b"cde"]
    assert (outbox.unsent, outbox.take()) == (0, [])
