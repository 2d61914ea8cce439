"""The connection of one driver or task to a broker: opened with the first request, and again when it is lost.

Spark does not try again where it would help: an error in the driver ends a query, and ``local[n]`` runs each task
once. So a broker that restarts in the middle of a query has to be waited for in here:

- ``Disconnected`` is tried again, with all addresses in turn and longer and longer waits between the rounds. The number
  of retries counts from the last answer, so that a query may live through any number of restarts.
- Everything else is raised at once: wrong credentials, refused rights and unknown streams are no better in a second.
- Requests of a source may be repeated: reading changes nothing, and a position is set to the same place again. Those of
  a sink are made for it (see ``TapConnection.commit``).
"""

from collections.abc import Callable, Generator
from random import uniform
from time import sleep
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from triomq.chunks import Columns
from triomq.clients import TapConnection, TapUrl, parse_tap_url
from triomq.errors import ConfigError, Disconnected
from triomq.pipeline.options import ConnectionOptions
from triomq.shown import shown

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

_LONGEST_PAUSE: Final = 5.0
"""Seconds between two rounds: a broker that is back is found soon, and one that is not is not flooded."""


class BrokerLink:
    """Requests to a broker, over one connection at a time; used by one thread, ends with ``close``.

    Args:
        options: Where the broker is, as whom to come, how often to try.

    Raises:
        ConfigError: The options name no place, or a file that cannot be read.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._urls = urls_of(options)
        self._ssl_context = _ssl_context(options)
        self._connection: TapConnection | None = None

    @property
    def place(self) -> str:
        """Where the broker is, for texts."""
        return ", ".join(url.place for url in self._urls)

    def call(self, request: Callable[[TapConnection], T]) -> T:
        """Make a request, again and again while the broker cannot be reached.

        Args:
            request: Makes it, on the connection that it is given; may be called several times.

        Raises:
            Disconnected: The broker was not there for all of the retries.
            AccessRefused: It does not let us in, or refuses what is asked.
            TriomqError: What else it refuses it with.
        """
        tries = _Tries(self._options, self.place)
        while True:
            try:
                return request(self._connected())
            except Disconnected as error:
                self.close()
                tries.pause(error)

    def fetch(
        self,
        stream: str,
        partition: int,
        first: int,
        stop: int,
        *,
        identity: int | None,
        most_bytes: int,
        group: str = "",
    ) -> Generator[Columns, None, None]:
        """Yield the records of a range, chunk by chunk, on a new connection where the old one is lost.

        It ends early where the stream does.

        Args:
            stream: The stream's name.
            partition: Which one.
            first: The first offset.
            stop: The offset to end before.
            identity: The partition's; None takes any.
            most_bytes: How much is asked for at once.
            group: Whose ledger is read, if the name is a queue's.

        Raises:
            OutOfRange: Records of it are gone.
            OtherStream: The stream was deleted and declared anew.
            Disconnected: The broker was not there for all of the retries.
        """
        tries = _Tries(self._options, self.place)
        while first < stop:
            try:
                connection = self._connected()
                for columns in connection.fetch(
                    stream, partition, first, stop, identity=identity, most_bytes=most_bytes, group=group
                ):
                    first = columns.head.stop
                    yield columns
                    tries.begin()
                return
            except Disconnected as error:
                self.close()
                tries.pause(error)

    def close(self) -> None:
        """Close the connection, if there is one; a further request opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> TapConnection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> TapConnection:
        """Connect to the first address where a broker is."""
        errors = []
        for url in self._urls:
            try:
                return TapConnection(url, self._ssl_context)
            except Disconnected as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise Disconnected("; ".join(map(str, errors)))


class _Tries:
    """How often a broker was not there in a row; created and ended by one request of a ``BrokerLink``."""

    def __init__(self, options: ConnectionOptions, place: str) -> None:
        self._options = options
        self._place = place
        self._waited = 0.0
        self._count = 0

    def begin(self) -> None:
        """Count from here: the broker has answered."""
        self._waited, self._count = 0.0, 0

    def pause(self, error: Disconnected) -> None:
        """Wait until the next try, or raise when there was the last one."""
        if self._count >= self._options.retries:
            raise Disconnected(
                f"the broker at {self._place} was tried {self._count + 1} times in {self._waited:.1f} s and more: "
                f"{error}; see whether it runs, or raise the options retries and retryBackoffMs"
            ) from error
        longest = min(self._options.retry_backoff_ms / 1000 * 2**self._count, _LONGEST_PAUSE)
        pause = uniform(longest / 2, longest)  # so that a hundred tasks do not come at one moment
        self._count += 1
        self._waited += pause
        sleep(pause)


def urls_of(options: ConnectionOptions) -> tuple[TapUrl, ...]:
    """Return the places to try, in turn, with the credentials.

    Raises:
        ConfigError: An address is none, or the password cannot be read.
    """
    timeout = {} if options.connect_timeout is None else {"timeout": options.connect_timeout}
    if options.url:
        try:
            url = parse_tap_url(options.url)
        except ConfigError as error:
            raise ConfigError(f"option url: {error}") from None
        if options.tls_ca and not url.tls:
            raise ConfigError("the option tls.ca, and a url without TLS; begin it with taps://")
        return (replace(url, **timeout),)
    if options.tls_ca and not options.tls:
        raise ConfigError("the option tls.ca without TLS; set tls to true")
    password = _password(options)
    return tuple(
        replace(
            parse_tap_url(f"{'taps' if options.tls else 'tap'}://{address}"),
            user=options.user,
            password=password,
            domain=options.domain,
            **timeout,
        )
        for address in options.addresses()
    )


def _password(options: ConnectionOptions) -> str:
    if not options.password_file:
        return options.password or "guest"
    try:
        with open(options.password_file, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, ValueError) as error:
        # The file's name, which the error repeats, is shown only where it is one: a password may stand there.
        name = f"{shown(options.password_file)}, and that" if "/" in options.password_file[:3] else "no path, and it"
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(
            f"option passwordFile is {name} cannot be read here: {why}; it has to be on every machine that connects"
        ) from None


def _ssl_context(options: ConnectionOptions) -> "ssl.SSLContext | None":
    if not options.tls_ca:
        return None
    import ssl  # 10 ms, that only TLS is to cost

    try:
        return ssl.create_default_context(cafile=options.tls_ca)
    except OSError as error:
        raise ConfigError(
            f"option tls.ca is {shown(options.tls_ca)}, and that cannot be used: {error.strerror}"
        ) from None
