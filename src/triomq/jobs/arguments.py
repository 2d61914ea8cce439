"""What a function takes and returns, as JSON on the wire and as its annotations say in Python.

    send_mail("ada", subject="hi")
        │ encode: written, then read as the worker will read it, so that a wrong argument fails at the caller
        ▼
    ["run", {"path": "mail", "callable": "send_mail", "args": ["ada"], "kwargs": {"subject": "hi"}, …}]
        │ decode: one call of msgspec, since the types of all arguments are one Struct
        ▼
    send_mail("ada", subject="hi")     with a datetime, a dataclass, a Struct where the annotation says so

Rules:

- The wire form is that of EventMQ, whose released clients and workers understand it. Nothing that it names is imported.
- Positional arguments are read by a Struct that is an array, the others by one that is an object; each has a default
  that stands for "not given". This costs 2 µs a call; to bind a signature and to convert one by one cost 7.
- What an argument is worth is known by its type where it is a plain one, so that most calls of a job are read once.
- A signature with ``*args`` or ``**kwargs`` has no such Struct, and goes the slow way.
- Annotations are looked up at the first use, not in the decorator: they may name classes further down in the module.
"""

import inspect
import re
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property
from itertools import islice
from pathlib import PurePath
from types import UnionType
from typing import Any, Final, TypeAlias

import msgspec

from triomq.errors import ConfigError, WrongArguments, WrongResult

_MISSING: Final = object()  # a parameter that a call does not give
_LOOSE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ITERATORS: Final = (AsyncIterator, AsyncGenerator, AsyncIterable, Iterator, Generator)

Given: TypeAlias = tuple[tuple[object, ...], dict[str, object]]


class _Named(msgspec.Struct, rename={"callable_": "callable"}, gc=False):
    path: str
    callable_: str


class _NamedCall(msgspec.Struct, array_like=True, gc=False):
    word: str
    call: _Named


class _AnyArguments(msgspec.Struct):
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class _AnyCall(msgspec.Struct, array_like=True):
    word: str
    call: _AnyArguments


class _AnyResult(msgspec.Struct):
    value: Any


def to_wire(value: object) -> object:
    """Turn what msgspec cannot write into something that it can: paths, and models of pydantic."""
    if isinstance(value, PurePath):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no form in JSON; use a dataclass or a msgspec.Struct")


def from_wire(kind: type, value: object) -> object:
    """Make one of a class that msgspec does not know."""
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    return kind.model_validate(value)  # type: ignore[attr-defined]  # ``_refuse_foreign`` let nothing else in


_NO_KEYWORDS: Final = b',"kwargs":{}}]'

_PLAIN: Final = frozenset({int, str, bool, bytes, type(None)})
"""Types of which each value is as good as the others; of floats, NaN has no form in JSON."""

_encode: Final = msgspec.json.Encoder(enc_hook=to_wire).encode
_read_name: Final = msgspec.json.Decoder(_NamedCall).decode
_read_any: Final = msgspec.json.Decoder(_AnyCall).decode


def encode_value(value: object) -> bytes:
    """Write progress, or an item of a stream.

    Raises:
        WrongResult: It has no form in JSON.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WrongResult(f"{value!r:.80} cannot be sent: {error}") from None


def read_name(payload: bytes) -> str:
    """Return the name of the job that a payload calls.

    Raises:
        WrongArguments: It is no call.
    """
    try:
        call = _read_name(payload).call
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WrongArguments(f"the message is no call of a function: {_in_our_words(str(error))}") from None
    return f"{call.path}.{call.callable_}" if call.path else call.callable_


class Conversion:
    """The arguments and the result of one function, between Python and the wire.

    Args:
        name: Of the job.
        function: Whose annotations count.
    """

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self.name = name
        self._function = function
        self.signature = inspect.signature(function)
        path, _, last = name.rpartition(".")
        start = _encode(["run", {"path": path, "callable": last, "class_args": [], "class_kwargs": {}}])
        self._start = start[:-2] + b',"args":'
        self._good_kinds: set[tuple[type, ...] | None] = set()  # of positional arguments, with which a call was right

    # Arguments

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        """Write a call, and look whether the function takes it.

        Raises:
            WrongArguments: It does not; the text has the path to the wrong argument.
        """
        try:
            given = b',"kwargs":' + _encode(kwargs) + b"}]" if kwargs else _NO_KEYWORDS
            payload = self._start + _encode(args) + given
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WrongArguments(f"{self.name}: {self._unwritable(args, kwargs, error)}") from None
        kinds = None if kwargs else tuple(map(type, args))
        if kinds not in self._good_kinds:
            self.decode(payload)
            if kinds is not None and self._say_all(kinds):
                self._good_kinds.add(kinds)
        return payload

    def _say_all(self, kinds: tuple[type, ...]) -> bool:
        """Return whether each call with arguments of these types is right, if one was."""
        expected = (self.kinds.get(name, Any) for name in self.signature.parameters)
        return _PLAIN.issuperset(kinds) and all(kind in _PLAIN or kind is Any for kind in islice(expected, len(kinds)))

    def decode(self, payload: bytes) -> Given:
        """Read a call; the inverse of ``encode``, and of what released clients write.

        Raises:
            WrongArguments: The function does not take it.
        """
        try:
            return self._read(payload)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            reason = self._arity_problem(payload) or self._with_parameter(str(error))
            raise WrongArguments(f"{self.name}: {reason}") from None

    def bound(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by the names of their parameters, defaults too.

        Raises:
            WrongArguments: They do not fit.
        """
        try:
            found = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise WrongArguments(f"{self.name}: {error}") from None
        found.apply_defaults()
        return found.arguments

    @cached_property
    def _read(self) -> Callable[[bytes], Given]:
        kinds = {parameter.kind for parameter in self.signature.parameters.values()}
        return self._loose_reader() if kinds.intersection(_LOOSE) else self._strict_reader()

    def _strict_reader(self) -> Callable[[bytes], Given]:
        """Return the reader for a signature whose parameters all have names."""
        parameters = self.signature.parameters.values()
        by_place = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        by_name = [each.name for each in parameters if each.kind is not inspect.Parameter.POSITIONAL_ONLY]
        needed = frozenset(each.name for each in parameters if each.default is inspect.Parameter.empty)
        no_names = (_MISSING,) * len(by_name)
        by_name_alone = needed.difference(by_place)
        least = len(by_place) + 1 if by_name_alone else len(needed)  # how many arguments are enough without names
        read = self._decoder(self._struct(by_place, array_like=True), self._struct(by_name)).decode
        as_tuple = msgspec.structs.astuple

        def read_strictly(payload: bytes) -> Given:
            call = read(payload).call
            args, named = as_tuple(call.args), as_tuple(call.kwargs)
            count = len(args)
            while count and args[count - 1] is _MISSING:
                count -= 1
            args = args[:count]
            if named == no_names and count >= least:
                return args, {}
            kwargs = {name: value for name, value in zip(by_name, named, strict=True) if value is not _MISSING}
            self._check(needed, by_place[:count], kwargs)
            return args, kwargs

        return read_strictly

    def _check(self, needed: frozenset[str], given: list[str], kwargs: dict[str, object]) -> None:
        if twice := kwargs.keys() & set(given):
            raise msgspec.ValidationError(f"multiple values for argument {min(twice)!r}")
        if missing := needed.difference(given, kwargs):
            first = next(name for name in self.signature.parameters if name in missing)
            raise msgspec.ValidationError(f"missing a required argument: {first!r}")

    def _struct(self, names: list[str], *, array_like: bool = False) -> type[msgspec.Struct]:
        """Make a Struct of parameters; its fields have names of their own, since a Struct's methods have names too."""
        fields = [(f"p{place}", self.kinds.get(name, Any), _MISSING) for place, name in enumerate(names)]
        return msgspec.defstruct(
            "Arguments",
            fields,
            frozen=True,
            array_like=array_like,
            forbid_unknown_fields=True,
            rename={f"p{place}": name for place, name in enumerate(names)},
        )

    def _decoder(self, args: type, kwargs: type) -> "msgspec.json.Decoder[Any]":
        arguments = msgspec.defstruct("Call", [("args", args, args()), ("kwargs", kwargs, kwargs())], frozen=True)
        call = msgspec.defstruct("Message", [("word", str), ("call", arguments)], array_like=True)
        return self._typed_decoder(call)

    def _typed_decoder(self, kind: type) -> "msgspec.json.Decoder[Any]":
        try:
            return msgspec.json.Decoder(kind, dec_hook=from_wire)
        except TypeError as error:
            raise ConfigError(f"job {self.name}: its annotations cannot be converted from JSON: {error}") from None

    def _loose_reader(self) -> Callable[[bytes], Given]:
        """Return the reader for a signature with ``*args`` or ``**kwargs``."""

        def read_loosely(payload: bytes) -> Given:
            call = _read_any(payload).call
            bound = self.signature.bind(*call.args, **call.kwargs)
            for name, value in bound.arguments.items():
                bound.arguments[name] = self._convert(name, value)
            return bound.args, bound.kwargs

        def read(payload: bytes) -> Given:
            try:
                return read_loosely(payload)
            except TypeError as error:
                raise msgspec.ValidationError(str(error)) from None

        return read

    def _convert(self, name: str, value: object) -> object:
        kind: Any = self.kinds.get(name, Any)
        if self.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            kind = tuple[kind, ...]
        elif self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            kind = dict[str, kind]
        try:
            return msgspec.convert(value, kind, dec_hook=from_wire)
        except msgspec.ValidationError as error:
            text, _, path = str(error).partition(" - at `$")
            raise msgspec.ValidationError(f"{text} - at `$[1].kwargs.{name}{path or '`'}") from None

    # Texts of errors

    def _unwritable(self, args: Sequence[object], kwargs: Mapping[str, object], error: Exception) -> str:
        """Return which of the arguments has no form in JSON."""
        for name, value in self.bound(args, kwargs).items():
            try:
                _encode(value)
            except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
                return f"argument {name!r}: {value!r:.80} cannot be sent: {wrong}"
        return str(error)

    def _arity_problem(self, payload: bytes) -> str:
        """Return what is wrong with the number and the names of arguments, in Python's own words."""
        try:
            call = _read_any(payload).call
            self.signature.bind(*call.args, **call.kwargs)
        except TypeError as error:
            return str(error)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
        return ""

    def _with_parameter(self, text: str) -> str:
        """Return msgspec's message, with the name of the parameter first."""
        message, _, path = text.partition(" - at `$[1].")
        path = path.rstrip("`")
        if place := re.match(r"args\[(\d+)\]", path):
            names = [each.name for each in self.signature.parameters.values()]
            path = names[int(place[1])] + path[place.end() :]
        elif path.startswith("kwargs."):
            path = path.removeprefix("kwargs.")
        return f"argument {path!r}: {_in_our_words(message)}" if path else _in_our_words(text)

    # Results

    def encode_result(self, value: object) -> bytes:
        """Write what the function returned, as ``{"value": …}``.

        Raises:
            WrongResult: It has no form in JSON.
        """
        try:
            return b'{"value":' + _encode(value) + b"}"
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WrongResult(f"{self.name}: its result {value!r:.80} cannot be sent: {error}") from None

    def decode_result(self, message: bytes) -> object:
        """Read a result, as the annotation says.

        Raises:
            WrongResult: It is something else.
        """
        try:
            return self._read_result(message).value
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            text = _in_our_words(str(error)).replace(" - at `$.value", " - at `$")
            raise WrongResult(f"{self.name}: its result is not what its annotation says: {text}") from None

    def decode_item(self, message: bytes) -> object:
        """Read an item of a stream; raises as ``decode_result`` does."""
        try:
            return self._read_item(message)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise WrongResult(f"{self.name}: an item is not what its annotation says: {error}") from None

    @cached_property
    def _read_result(self) -> Callable[[bytes], Any]:
        kind = self.kinds.get("return", Any)
        if typing.get_origin(kind) in _ITERATORS:
            kind = None  # a stream ends without a result
        return self._typed_decoder(msgspec.defstruct("Result", [("value", kind)])).decode

    @cached_property
    def _read_item(self) -> Callable[[bytes], object]:
        arguments = typing.get_args(self.kinds.get("return", Any))
        return self._typed_decoder(arguments[0] if arguments else Any).decode

    @cached_property
    def kinds(self) -> dict[str, Any]:
        """The annotations, as classes."""
        try:
            kinds = typing.get_type_hints(inspect.unwrap(self._function), include_extras=True)
        except NameError as error:
            raise ConfigError(
                f"job {self.name}: its annotations cannot be read: {error}; import it outside `if TYPE_CHECKING`"
            ) from None
        for name, kind in kinds.items():
            try:
                _refuse_foreign(kind)
            except TypeError as error:
                raise ConfigError(f"job {self.name}: annotation of {name!r}: {error}") from None
        return kinds

    def check(self) -> None:
        """Read all annotations now, as a worker does before it takes jobs.

        Raises:
            ConfigError: They name what is not there, or nothing that JSON could be converted to.
        """
        self._read, self._read_result, self._read_item  # noqa: B018  # made here


def _in_our_words(text: str) -> str:
    """Return msgspec's message in our order: what was expected, what was found."""
    return re.sub(r"^Expected `?(.*?)`?, got `?(.*?)`?( - at .*)?$", r"found \2, expected \1\3", text)


def _refuse_foreign(kind: Any) -> None:
    """Raise a TypeError for a class that neither msgspec nor the functions above know."""
    for inner in typing.get_args(kind):
        _refuse_foreign(inner)
    kind = typing.get_origin(kind) or kind
    if not isinstance(kind, type) or kind is UnionType or issubclass(kind, PurePath) or hasattr(kind, "model_validate"):
        return
    if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType) and kind not in _ITERATORS:
        raise TypeError(f"{kind.__name__} has no form in JSON; use a dataclass or a msgspec.Struct")
