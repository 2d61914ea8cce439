"""What an engine sends, until its driver takes it: pieces in their order, for protocols that gather nothing."""


class Outbox:
    """Owned by one engine, and looked at by its driver in each turn: attributes, because a property costs a call.

    ``unsent`` is how many bytes wait. ``finished`` is whether nothing follows them: then the transport is shut.
    """

    __slots__ = ("_pieces", "finished", "unsent")

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self.unsent = 0
        self.finished = False

    def put(self, *pieces: bytes | memoryview) -> None:
        """Add bytes."""
        self._pieces += pieces
        self.unsent += sum(map(len, pieces))

    def take(self) -> list[bytes | memoryview]:
        """Remove and return what waits."""
        pieces, self._pieces = self._pieces, []
        self.unsent = 0
        return pieces
