"""What the URLs of all protocols have in common: where, who logs in, and the options behind the question mark."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from triomq.errors import ConfigError
from triomq.shown import shown

T = TypeVar("T")


def split_url(url: str, schemes: Collection[str], protocol: str, example: str) -> tuple[SplitResult, int | None]:
    """Return the parts of a URL, and its port if it has one.

    Args:
        url: The URL.
        schemes: What it may begin with.
        protocol: Whose these are.
        example: How it is written, for errors. Their texts never show the password.

    Raises:
        ConfigError: It is no URL, or one of another protocol, or ends too early.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # The error's own text may hold a password that was not written as a URL wants it.
        raise ConfigError(f"the URL's host or port cannot be read; {example}, with %23 for # in a password") from None
    if parts.scheme not in schemes:
        begins = f"begins with {shown(parts.scheme)}, which" if "://" in url else "does not begin with a scheme, and"
        raise ConfigError(f"the URL {begins} is no {protocol}; {example}")
    if not url.lower().startswith(f"{parts.scheme}://"):
        raise ConfigError(f"the URL has no // behind its {parts.scheme}:; {example}")
    if parts.fragment:
        raise ConfigError("the URL has a '#', which ends it: write %23 in a password or a name")
    return parts, port


def place_of(host: str, port: int, path: str) -> str:
    """Return where a broker is, for texts: at a host and port, or at the path of a Unix socket."""
    if path:
        return path
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def zmq_address(host: str, port: int) -> str:
    """Return a host and a port as ZeroMQ has them."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def read_credentials(parts: SplitResult) -> dict[str, str]:
    """Return the user and the password, those of them that the URL has."""
    found = {"user": parts.username, "password": parts.password}
    return {name: unquote(value) for name, value in found.items() if value is not None}


def read_options(query: str, readers: Mapping[str, Callable[[str], T]]) -> dict[str, T]:
    """Read what stands behind the question mark.

    Args:
        query: That.
        readers: For each option a function that returns its value, or raises ValueError with what it must be.

    Raises:
        ConfigError: An option is not known, or its value is wrong.
    """
    found: dict[str, T] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in readers:
            if "@" in query:  # of a password with a ?
                raise ConfigError("the URL has an @ behind its ?; write %3F and %40 in a password, %40 in an option")
            raise ConfigError(f"the URL's option {shown(name)} is not known; there are {', '.join(readers)}")
        try:
            found[name] = readers[name](text)
        except ValueError as error:
            raise ConfigError(f"the URL's option {name} is {shown(text)}; it must be {error}") from None
    return found


def read_seconds(text: str) -> float:
    """Return a time; raises ValueError as ``read_options`` wants it."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError("seconds, more than 0")
    return seconds


def read_file_name(text: str) -> str:
    """Return the name of a file that is there; raises ValueError as ``read_options`` wants it."""
    if not Path(text).is_file():
        raise ValueError("a file that is there")
    return text


def require_both_keys(options: Mapping[str, object]) -> None:
    """Refuse one of the options ``keys`` and ``server_key`` (CURVE) without the other.

    Raises:
        ConfigError: There is one alone.
    """
    if bool(options.get("keys")) != bool(options.get("server_key")):
        raise ConfigError("the URL has one of keys and server_key; each needs the other")


def virtual_host_of(parts: SplitResult) -> str:
    """Return the virtual host that a URL's path is; no path, and an empty one, are ``/``.

    Raises:
        ConfigError: It has a slash in it that is not written %2F.
    """
    name = unquote(parts.path[1:])
    if "/" in parts.path[1:]:
        raise ConfigError(f"the virtual host {shown(name)} has a slash in it; write %2F for each")
    return name or "/"


def one_of(*words: str) -> Callable[[str], str]:
    """Make a reader of an option that is one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return read
