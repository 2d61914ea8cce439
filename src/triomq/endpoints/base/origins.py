"""The brokers that are connected as peers, each by the name that its resources have."""


class Origins:
    """The peers of a broker that are connected; made with it.

    A broker sends a number with its name, the same one each time it connects. So one that connects again before its
    last connection has ended is known from another one of the same name, which is refused: each would take the other's
    resources for its own, and delete what it has not declared itself.
    """

    def __init__(self) -> None:
        self._here: dict[tuple[str, str], tuple[str, int]] = {}

    def come(self, domain: str, origin: str, instance: str) -> bool:
        """Count one more connection of a peer; return False if another broker is here by this name."""
        present, connections = self._here.get((domain, origin), (instance, 0))
        if present != instance:
            return False
        self._here[domain, origin] = (instance, connections + 1)
        return True

    def go(self, domain: str, origin: str) -> None:
        """Count one connection less."""
        instance, connections = self._here.pop((domain, origin))
        if connections > 1:
            self._here[domain, origin] = (instance, connections - 1)
