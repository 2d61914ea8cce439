"""Users as programs and configurations write them, and the records that the broker makes of them."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from triomq import security
from triomq.checked import Checked
from triomq.errors import ConfigError
from triomq.security import ALL, ANY_DOMAIN, Permission, UserChanges, UserLimits, read_verifier

_Moment = Annotated[datetime, msgspec.Meta(tz=True)]

_CurveKey = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40})?$")]
"""A public key in Z85, or none."""


class User(Checked, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who may log in, how, and what it may.

    Args:
        password: The password.
        password_file: A file that holds the password, from the folder of the configuration; a newline at its end
            does not count.
        verifiers: What the password is checked against, as ``triomq user`` writes it.
        certificate: Log in by a TLS client certificate alone, with no password at all.
        curve_key: The user's public key for ZeroMQ (CURVE), 40 characters as ``triomq user curve`` writes it; no other
            user has the same.
        permissions: What it may do, by domain; ``"*"`` stands for all domains that are not named, and others cannot be
            entered. Without permissions it may do everything, in all domains, and look into the broker.
        tags: ``administrator`` and ``monitoring`` may look into the broker; others mean nothing here.
        limits: How much it may have at once.
        expires: When it stops being a user, with its time zone.
    """

    password: str = ""
    password_file: str = ""
    verifiers: tuple[str, ...] = ()
    certificate: bool = False
    curve_key: _CurveKey = ""
    permissions: dict[str, Permission] | None = None
    tags: tuple[str, ...] = ()
    limits: UserLimits = UserLimits()
    expires: _Moment | None = None

    def __post_init__(self) -> None:
        """Check the fields, and that there is one way to log in."""
        super().__post_init__()
        if self.password and self.password_file:
            raise ValueError("a user has either a password or a password_file, not both")
        if self.verifiers and (self.password or self.password_file):
            raise ValueError("a user has either verifiers or a password, not both")
        if not (self.password or self.password_file or self.verifiers or self.certificate or self.curve_key):
            raise ValueError(
                "a user needs a password that is not empty, or a password_file, or verifiers, or a curve_key"
            )
        for text in self.verifiers:
            read_verifier(text)

    def __repr__(self) -> str:
        """Leave the password out: this may come into a log."""
        if self.password_file:
            return f"User(password_file={self.password_file!r})"
        return "User(password=…)" if self.password else "User(…)"

    def read_password(self, path: str) -> str:
        """Return the password; ``path`` is where this user is in the configuration, for errors.

        Raises:
            ConfigError: The file cannot be read, or is empty.
        """
        if not self.password_file:
            return self.password
        try:
            found = Path(self.password_file).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{path}.password_file: cannot read {self.password_file}: {error.strerror}; name a file that the "
                "broker's user may read"
            ) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path}.password_file: {self.password_file} is no text in UTF-8") from None
        password = found.removesuffix("\n").removesuffix("\r")
        if not password:
            raise ConfigError(f"{path}.password_file: {self.password_file} is empty; write the password into it")
        return password

    def record(self, name: str) -> security.UserRecord:
        """Return the broker's record of this user; the password is read now.

        Raises:
            ConfigError: The password's file cannot be read, or is empty.
        """
        unlimited = self.permissions is None
        return security.UserRecord(
            name=name,
            password=self.read_password(f"users.{name}") or None,
            verifiers=self.verifiers,
            curve_key=self.curve_key,
            permissions={ANY_DOMAIN: ALL} if self.permissions is None else self.permissions,
            tags=tuple(dict.fromkeys((security.ADMINISTRATOR, *self.tags) if unlimited else self.tags)),
            limits=self.limits,
            expires=None if self.expires is None else self.expires.timestamp(),
        )


def records_of(users: Mapping[str, str | User]) -> list[security.UserRecord]:
    """Return the records of users; one that is given by its password alone may do everything.

    Raises:
        ConfigError: A password cannot be read, or a name is empty.
        TypeError: They are not users by name.
    """
    if not isinstance(users, Mapping):
        raise TypeError(f"users are a {type(users).__name__}; they are a dict: {{name: password}} or {{name: User(…)}}")
    for name, user in users.items():
        if not isinstance(name, str):
            raise TypeError(f"users: found a name of type {type(name).__name__}; names are str")
        if not isinstance(user, str | User):
            raise TypeError(
                f"users[{name!r}] is of type {type(user).__name__} (not shown, it may be a password); it is the "
                "password as a str, or a User"
            )
    if "" in users:
        raise ConfigError("users: found a user without a name; give it one")
    records = [
        security.make_administrator(name, user) if isinstance(user, str) else user.record(name)
        for name, user in users.items()
    ]
    _check_keys(records)
    return records


def _check_keys(records: list[security.UserRecord]) -> None:
    owners: dict[str, str] = {}
    for record in records:
        if record.curve_key and owners.setdefault(record.curve_key, record.name) != record.name:
            raise ConfigError(
                f"users.{record.name}.curve_key: it is the key of {owners[record.curve_key]!r} too; make another one"
            )


def closing_reasons(changes: UserChanges) -> dict[str, str]:
    """Return why the connections of users are closed, by name: the gravest reason; the first is in RabbitMQ's words."""
    reasons = {name: f"permissions of user '{name}' were changed" for name in changes.ended}
    reasons |= {name: f"password of user '{name}' was changed" for name in changes.changed}
    return reasons | {name: f"user '{name}' was deleted" for name in changes.removed}
