"""A function that is a job: its name, what is to be known of it, and its way to the wire and back.

@jobs.job ──> JobDefinition ──┬─ caller: ``encode`` ──> payload of a REQUEST
                              └─ worker: ``bind`` payload ──> JobCall.run() ──> ``encode_result`` ──> REPLY
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from triomq.errors import ConfigError, WrongArguments, WrongResult
from triomq.jobs.arguments import Conversion, encode_value
from triomq.jobs.options import JobOptions

_LONGEST_NAME = 200
"""Characters of a name: it stands in logs, in tables and in each payload."""


class JobCall(msgspec.Struct, frozen=True):
    """A call whose arguments are as the annotations say; made by ``JobDefinition.bind``.

    Args:
        definition: What is called.
        args: The positional arguments.
        kwargs: The others.
    """

    definition: "JobDefinition"
    args: tuple[object, ...]
    kwargs: dict[str, object]

    @property
    def function(self) -> Callable[..., object]:
        """The function that is called."""
        return self.definition.function

    def run(self) -> object:
        """Call the function; an async one returns something to await, a stream something to iterate over."""
        return self.definition.function(*self.args, **self.kwargs)


class JobDefinition:
    """What is known of one job; made by the decorators of ``Jobs``, lives as long as that.

    Args:
        function: What runs.
        options: How.
        name: How it is called on the wire; ``module.function`` if empty.

    Raises:
        ConfigError: The function cannot be a job.
    """

    def __init__(self, function: Callable[..., object], options: JobOptions, name: str = "") -> None:
        _refuse_others(function)
        self.function = function
        self.options = options
        self.name = name or name_of(function)
        if len(self.name) > _LONGEST_NAME or not self.name.strip("."):
            raise ConfigError(f"name: found {self.name!r}, expected 1 to {_LONGEST_NAME} characters")
        forms = (function, inspect.unwrap(function))
        is_async_stream = any(map(inspect.isasyncgenfunction, forms))
        self.is_async = is_async_stream or any(map(inspect.iscoroutinefunction, forms))
        """Whether it runs in the nursery of a worker, and not in a process."""
        self.is_stream = is_async_stream or any(map(inspect.isgeneratorfunction, forms))
        """Whether it is a generator, whose items go back one by one."""
        self._conversion = Conversion(self.name, function)

    def __repr__(self) -> str:
        """Show the name."""
        return f"<JobDefinition {self.name}>"

    @property
    def signature(self) -> inspect.Signature:
        """The function's."""
        return self._conversion.signature

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Those of its arguments, and ``return``; raises ``ConfigError`` if they cannot be read."""
        return self._conversion.kinds

    # For callers

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """Return the payload of a call; raises ``WrongArguments`` with the path to the wrong one."""
        return self._conversion.encode(args, kwargs)

    def decode_result(self, message: bytes) -> object:
        """Return the result in a REPLY; raises ``WrongResult`` if it is not what the annotation says."""
        return self._conversion.decode_result(message)

    def decode_item(self, message: bytes) -> object:
        """Return an item of a stream; raises ``WrongResult`` if it is not what the annotation says."""
        return self._conversion.decode_item(message)

    def key_of(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        """Return what the limits of a call are about; empty if there are none."""
        if not self.options.key:
            return self.name if self.options.max_concurrency or self.options.rate else ""
        return self._filled("key", self.options.key, args, kwargs)

    def unique_of(self, unique: bool | str, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        """Return the text of which there is one job at a time; it has the name, so that jobs do not meet in it.

        Args:
            unique: As ``JobOptions.unique``.
            args: The positional arguments.
            kwargs: The others.
        """
        if unique is False:
            return ""
        if unique is True:
            values = encode_value(self._conversion.bound(args, kwargs))
            return f"{self.name}:{hashlib.sha1(values, usedforsecurity=False).hexdigest()}"
        return f"{self.name}:{self._filled('unique', unique, args, kwargs)}"

    def _filled(self, option: str, template: str, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        try:
            return template.format_map(self._conversion.bound(args, kwargs))
        except (LookupError, AttributeError, ValueError) as error:
            raise WrongArguments(
                f"{self.name}: {option} {template!r} cannot be filled in with its arguments: {error!r}"
            ) from None

    # For workers

    def bind(self, payload: bytes) -> JobCall:
        """Return the call in a payload, with its arguments converted by the annotations.

        Raises:
            WrongArguments: The function does not take them; the text has the path to the wrong one.
        """
        args, kwargs = self._conversion.decode(payload)
        return JobCall(self, args, kwargs)

    def encode_item(self, value: object) -> bytes:
        """Return the value of a PROGRESS that carries an item; raises ``WrongResult`` if it has no form in JSON."""
        return encode_value(value)

    def encode_result(self, value: object) -> bytes:
        """Return the message of a REPLY; raises ``WrongResult`` if it has no form in JSON."""
        return self._conversion.encode_result(value)

    def is_worth_retry(self, error: BaseException) -> bool:
        """Return whether another attempt may end otherwise than with this error."""
        if isinstance(error, BaseExceptionGroup):
            return any(map(self.is_worth_retry, error.exceptions))
        final = self.options.final
        assert isinstance(final, tuple)
        return not isinstance(error, (WrongArguments, WrongResult, *final))

    def check(self) -> None:
        """Look at what the decorator has left for later, as a worker does before it takes jobs.

        Raises:
            ConfigError: An annotation names what is not there, or nothing that JSON could be converted to.
        """
        self._conversion.check()


def name_of(function: Callable[..., object]) -> str:
    """Return ``module.function``; a program's main module has the name under which others import it."""
    module = function.__module__
    if module == "__main__":
        main = sys.modules[module]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec is not None else Path(getattr(main, "__file__", None) or "main").stem
    return f"{module}.{function.__name__}"


def _refuse_others(function: Callable[..., object]) -> None:
    if not inspect.isfunction(function):
        raise ConfigError(f"jobs are functions; found {function!r:.100}")
    where = function.__qualname__.rpartition(".")[0]
    if where and not where.endswith("<locals>"):
        raise ConfigError(f"{function.__qualname__} is a method; make it a function, since workers have no {where}")
