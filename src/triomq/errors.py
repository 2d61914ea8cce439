"""All errors that triomq raises, in one tree.

TriomqError
├─ ProtocolError            LocalProtocolError (our misuse) · RemoteProtocolError (the peer's)
├─ Refused                  NotFound · AccessRefused · PreconditionFailed · ResourceLocked · LimitExceeded · Unroutable
├─ Disconnected · ConsumerCancelled
├─ ActorError               ActorStopped · HandlerFailed · MailboxFull · NameTaken · NoSuchActor · RestartLimitExceeded
├─ StoreError               StoreLocked · StoreCorrupt · StoreTooNew · DiskFull · StoreUnwritable
└─ ConfigError

``Refused`` is an answer, not a crash: a handler that raises it tells its asker no, and goes on living.
"""

__all__ = [
    "AccessRefused",
    "ActorError",
    "ActorStopped",
    "ConfigError",
    "ConsumerCancelled",
    "Disconnected",
    "DiskFull",
    "HandlerFailed",
    "LimitExceeded",
    "LocalProtocolError",
    "MailboxFull",
    "NameTaken",
    "NoSuchActor",
    "NotFound",
    "PreconditionFailed",
    "ProtocolError",
    "Refused",
    "RemoteProtocolError",
    "ResourceLocked",
    "RestartLimitExceeded",
    "StoreCorrupt",
    "StoreError",
    "StoreLocked",
    "StoreTooNew",
    "StoreUnwritable",
    "TriomqError",
    "Unroutable",
]


class TriomqError(Exception):
    """The root: ``except TriomqError`` catches whatever triomq raises on purpose."""


class ProtocolError(TriomqError):
    """Someone broke the rules of a wire protocol."""


class LocalProtocolError(ProtocolError):
    """Our own side asked an engine for something that its state does not allow; a bug in the caller."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules; engines report this as an event, clients raise it."""


class Refused(TriomqError):
    """The broker understood and says no; nothing was changed.

    Each endpoint has one table from the subclasses of this to its own reply codes.
    """


class NotFound(Refused):
    """The named sink, queue or binding does not exist."""


class AccessRefused(Refused):
    """The name is reserved, the resource is in exclusive use, or the user may not."""


class PreconditionFailed(Refused):
    """What exists differs from what was asked for, or is in use, or is not empty."""


class ResourceLocked(Refused):
    """The queue belongs exclusively to another session."""


class LimitExceeded(Refused):
    """A configured limit leaves no room; the text names the limit."""


class Unroutable(Refused):
    """A message published as mandatory reached no queue."""


class Disconnected(TriomqError):
    """A client found nobody at the other end, or lost them; what was not confirmed may or may not have happened."""


class ConsumerCancelled(TriomqError):
    """The broker has ended a client's consumer: its queue was deleted, or has failed."""


class ActorError(TriomqError):
    """Something about an actor, not about its answer."""


class ActorStopped(ActorError):
    """The actor has stopped for good and will never answer."""


class HandlerFailed(ActorError):
    """The handler of a request crashed; ``__cause__`` is its exception."""


class MailboxFull(ActorError):
    """The mailbox is full and its overflow policy is to reject."""


class NameTaken(ActorError):
    """A living sibling has that name already."""


class NoSuchActor(ActorError):
    """Nobody lives at that path."""


class RestartLimitExceeded(ActorError):
    """A supervisor restarted its children too often; ``__cause__`` is the last failure."""


class StoreError(TriomqError):
    """What is kept on disk cannot be read or written; the text names the file and the way out."""


class StoreLocked(StoreError):
    """Another broker works in that directory."""


class StoreCorrupt(StoreError):
    """The file is damaged, or is not a store at all."""


class StoreTooNew(StoreError):
    """A later version of triomq has written it."""


class DiskFull(StoreError):
    """There is no room left; nothing of what was to be written is there, and it may be tried again."""


class StoreUnwritable(StoreError):
    """The directory is read-only, or the disk reports errors; nothing of what was to be written is there."""


class ConfigError(TriomqError):
    """The configuration is wrong; the text names the path, what was found and what is allowed."""
