"""All users of a broker: their passwords and verifiers, and their permissions.

Checking a password against a SCRAM verifier takes milliseconds of a processor, by design, so ``check`` is to be called
in a thread; ``check_nowait`` answers what needs no such work:

- a user whose password the program itself knows: right or wrong, at once;
- a password that was right within the last minute: right, at once;
- all else: None, and ``check`` works it out.

A wrong password takes the same time whether the user exists or not: at once if all passwords are known, else the time
of the work. In SCRAM a user that does not exist gets a made-up salt, the same each time. An attacker learns no names.
"""

import hmac
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from triomq.security.permissions import Access, Permission, permission_in
from triomq.security.user import UserRecord, make_administrator
from triomq.security.verifiers import ITERATIONS, ScramVerifier, make_verifier, prepared

_REMEMBERED = 60.0  # seconds for which a password that was right is not worked out again

_MOST_REMEMBERED = 1024  # passwords; with more of them the oldest are worked out again

_SALT = 16  # bytes


class UserChanges(msgspec.Struct, frozen=True, gc=False):
    """The difference that a change of users has made: names, sorted.

    Args:
        added: New users.
        changed: Users with another password.
        removed: Users that were removed.
        regulated: Users with other permissions, limits, tags or expiry, and the same password.
        ended: Users whose sessions are to end: removed, with another password, or with fewer permissions.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    regulated: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


class Users:
    """The users of a broker and their permissions; created by its owner, used by endpoints.

    Args:
        users: The first users: passwords by name, of administrators, or records.
        iterations: Rounds for passwords that have no verifier of their own yet.
        secret: The key of the salts of users that do not exist, which stay the same as long as it does.
    """

    def __init__(
        self,
        users: Mapping[str, str] | Iterable[UserRecord] = (),
        *,
        iterations: int = ITERATIONS,
        secret: bytes | None = None,
    ) -> None:
        self.version = 0
        self._iterations = iterations
        self.secret = secret or os.urandom(32)
        self._process_secret = os.urandom(32)  # digests made with it do not outlive the process
        self._users: dict[str, UserRecord] = {}
        self._owners: dict[str, UserRecord] = {}  # by their CURVE keys
        self._derived: dict[tuple[str, str], ScramVerifier] = {}
        self._accesses: dict[tuple[str, str], Access] = {}
        self._right: dict[bytes, float] = {}
        self._lock = threading.Lock()
        self._slow = False
        self.replace(users)

    # Users

    @property
    def names(self) -> list[str]:
        """The names of all users, sorted."""
        return sorted(self._users)

    def __iter__(self) -> Iterator[UserRecord]:
        """Yield all users, by name."""
        return iter([self._users[name] for name in self.names])

    def get(self, name: str) -> UserRecord | None:
        """Return a user; None if there is none of that name, or it has expired."""
        user = self._users.get(name)
        return None if user is None or user.has_expired() else user

    def add(self, name: str, password: str) -> UserChanges:
        """Add an administrator, in place of a user of that name."""
        return self.put(make_administrator(name, password))

    def put(self, user: UserRecord) -> UserChanges:
        """Add a user, in place of one of that name."""
        return self._change({**self._users, user.name: user})

    def remove(self, name: str) -> UserChanges:
        """Remove a user, if there is one."""
        return self._change({other: user for other, user in self._users.items() if other != name})

    def replace(self, users: Mapping[str, str] | Iterable[UserRecord]) -> UserChanges:
        """Replace all users."""
        if isinstance(users, Mapping):
            users = [make_administrator(name, password) for name, password in users.items()]
        return self._change({user.name: user for user in users})

    def _change(self, users: dict[str, UserRecord]) -> UserChanges:
        before, self._users = self._users, users
        self.version += 1
        self._slow = any(user.password is None for user in users.values())
        self._owners = {user.curve_key: user for user in users.values() if user.curve_key}
        with self._lock:
            self._right.clear()
            self._derived.clear()
        for (name, domain), access in list(self._accesses.items()):
            access.change(self._permission(name, domain))  # sessions hold it
            if name not in users:
                del self._accesses[name, domain]
        both = before.keys() & users.keys()
        changed = {name for name in both if not users[name].proves_alike(before[name])}
        regulated = {name for name in both - changed if users[name] != before[name]}
        removed = before.keys() - users.keys()
        less = {name for name in regulated if _lost_permissions(before[name], users[name])}
        return UserChanges(
            tuple(sorted(users.keys() - before.keys())),
            tuple(sorted(changed)),
            tuple(sorted(removed)),
            tuple(sorted(regulated)),
            tuple(sorted(removed | changed | less)),
        )

    def owner_of(self, curve_key: str) -> str | None:
        """Return the user that owns a CURVE key (Z85); None if there is none, or it has expired."""
        user = self._owners.get(curve_key)
        return None if user is None or user.has_expired() else user.name

    # Permissions

    def limit(self, name: str, resource: str) -> int | None:
        """Return how much a user may have at once; None for no limit, 0 for a user that was removed.

        Args:
            name: The user.
            resource: One of the fields of ``UserLimits``.
        """
        user = self.get(name)
        return 0 if user is None else user.limits.of(resource)

    def access(self, user: str, domain: str) -> Access:
        """Return the permissions of a user in a domain; the object changes with the user."""
        access = self._accesses.get((user, domain))
        if access is None:
            access = self._accesses[user, domain] = Access(self._permission(user, domain))
        return access

    def _permission(self, name: str, domain: str) -> Permission | None:
        user = self._users.get(name)
        return None if user is None else permission_in(user.permissions, domain)

    # Passwords

    def check_nowait(self, name: str, password: bytes) -> bool | None:
        """Return whether a user has this password; None if that has to be worked out."""
        user = self._users.get(name)
        if user is not None and self._is_known_right(user, password):
            return not user.has_expired()
        return None if self._slow else False

    def check(self, name: str, password: bytes) -> bool:
        """Return whether a user has this password; to be called in a thread, for it may take a while.

        It takes the same time for a user that does not exist.
        """
        user = self._users.get(name)
        if user is not None and self._is_known_right(user, password):
            return not user.has_expired()
        if not self._slow:
            return False
        version = self.version
        verifiers = () if user is None else user.known_by
        right = any(verifier.matches(password) for verifier in verifiers[:1])
        if not any(isinstance(verifier, ScramVerifier) for verifier in verifiers[:1]):
            self._unknown(name, "SCRAM-SHA-256").matches(password)  # for the time that it takes
        if right and version == self.version:
            self._remember(name, password)
        return right and user is not None and not user.has_expired()

    def _is_known_right(self, user: UserRecord, password: bytes) -> bool:
        """Return whether the password is right, as far as that is known without work."""
        if user.password is not None:
            mine = self._digest(user.name, prepared(user.password.encode()))
            return hmac.compare_digest(mine, self._digest(user.name, prepared(password)))
        digest = self._digest(user.name, password)
        return self._right.get(digest, 0.0) > time.monotonic()

    def _remember(self, name: str, password: bytes) -> None:
        with self._lock:
            while len(self._right) >= _MOST_REMEMBERED:
                del self._right[next(iter(self._right))]
            self._right[self._digest(name, password)] = time.monotonic() + _REMEMBERED

    def _digest(self, name: str, password: bytes) -> bytes:
        encoded = name.encode("utf-8", "surrogateescape")
        return hmac.digest(self._process_secret, b"%d:%b:%b" % (len(encoded), encoded, password), "sha256")

    # Verifiers, for mechanisms that need them

    def verifier_nowait(self, name: str, mechanism: str) -> ScramVerifier | None:
        """Return the verifier for SCRAM, also of a user that does not exist; None if it has to be worked out."""
        user = self.get(name)
        if user is not None:
            for verifier in user.known_by:
                if isinstance(verifier, ScramVerifier) and verifier.mechanism == mechanism:
                    return verifier
            if user.password is not None:
                return self._derived.get((name, mechanism))
        return self._unknown(name, mechanism)

    def verifier(self, name: str, mechanism: str) -> ScramVerifier:
        """Return the verifier for SCRAM; to be called in a thread, for it may take a while."""
        found = self.verifier_nowait(name, mechanism)
        if found is not None:
            return found
        user, version = self._users.get(name), self.version
        if user is None or user.password is None:
            return self._unknown(name, mechanism)
        found = make_verifier(
            user.password.encode(),
            mechanism=mechanism,
            iterations=self._iterations,
            salt=self._salt(name, mechanism),
        )
        with self._lock:
            if version == self.version:
                self._derived[name, mechanism] = found
        return found

    def _unknown(self, name: str, mechanism: str) -> ScramVerifier:
        """Return a verifier that no password fits, with the same salt each time."""
        hash_size = 32 if mechanism == "SCRAM-SHA-256" else 64
        never = os.urandom(hash_size)
        return ScramVerifier(mechanism, self._iterations, self._salt(name, mechanism), never, never)

    def _salt(self, name: str, mechanism: str) -> bytes:
        text = f"{mechanism}|{name}".encode("utf-8", "surrogateescape")
        return hmac.digest(self.secret, text, "sha256")[:_SALT]


def _lost_permissions(before: UserRecord, after: UserRecord) -> bool:
    """Return whether a user whose record was changed has fewer permissions in some domain, or might have."""
    domains = before.permissions.keys() | after.permissions.keys()
    for domain in domains:
        old, new = permission_in(before.permissions, domain), permission_in(after.permissions, domain)
        if old is not None and (new is None or not old.is_within(new)):
            return True
    return not set(before.tags) <= set(after.tags)
