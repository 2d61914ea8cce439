"""The file of users that ``triomq user`` writes and brokers read: verifiers and permissions, no passwords.

It is JSON, for its owner alone, and is replaced in one step, so that a broker that reads it meanwhile finds it whole.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from triomq.app.users import User
from triomq.errors import ConfigError

_OWNER_ALONE = 0o600
_OTHERS = 0o077


class UsersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file.

    Args:
        secret: Makes the salts of users that do not exist the same at each start, so that no client can find out which
            exist.
        users: Who may log in, by name.
    """

    secret: bytes = msgspec.field(default_factory=lambda: os.urandom(32))
    users: dict[str, User] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        """Leave the secret out: this may come into a log."""
        return f"UsersFile(users={self.users!r})"


def read_users(path: Path) -> UsersFile:
    """Read a file of users.

    Raises:
        ConfigError: It cannot be read, other users may read it, or it is no such file; the text shows no content.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except OSError as error:
        raise ConfigError(
            f"cannot read the users in {path}: {error.strerror}; `triomq user add NAME --file {path}` makes the first"
        ) from None
    if mode & _OTHERS:
        raise ConfigError(
            f"{path} may be read by others (mode {mode & 0o777:o}), and passwords can be tried against what is in it; "
            f"chmod 600 {path}"
        )
    try:
        found = msgspec.json.decode(content, type=UsersFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no file of users: {error}; mend it, or begin with a new one") from None
    if "" in found.users:
        raise ConfigError(f"{path} has a user without a name; remove it")
    return found


@contextmanager
def editing(path: Path, *, begin: bool = False) -> Iterator[dict[str, User]]:
    """Yield all users, to be changed, and write them when the block ends well; another process that edits them waits.

    Args:
        path: The file.
        begin: Begin with no users if there is no file yet.

    Raises:
        ConfigError: The file cannot be read or written.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"cannot open the folder of {path}: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = UsersFile() if begin and not path.exists() else read_users(path)
        users = dict(found.users)
        yield users
        if users != found.users:
            write_users(path, UsersFile(found.secret, users))
    finally:
        os.close(folder)


def write_users(path: Path, content: UsersFile) -> None:
    """Replace the file in one step, or create it.

    Raises:
        ConfigError: It cannot be written.
    """
    content_bytes = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    try:
        # It is created for its owner alone, whatever the umask is.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose a folder that you may write to") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), _OWNER_ALONE)
            file.write(content_bytes)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Write the folder's entry to disk, so that the new file survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
