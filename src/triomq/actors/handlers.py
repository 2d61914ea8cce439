"""The handler table of an actor class: which function takes which message.

Built once per class, when it is first started: then the names in annotations can be resolved, and a handler whose
answer is not what its request promises is refused before any message is told. A lookup by exact type costs
30 ns; a ladder of ``isinstance`` twenty times that.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import ForwardRef, TypeVar, get_args, get_origin, get_type_hints

from triomq.actors.messages import Message, Request

Handler = Callable[[object, Message], object]


class HandlerTable:
    """The handlers of one class, plain and async apart, and which hooks the class defines.

    Created by :func:`handler_table`, cached on the class, shared by all its instances.
    """

    __slots__ = (
        "actor_class",
        "answers_in_place",
        "asynchronous",
        "has_after_batch",
        "has_on_start",
        "has_run",
        "plain",
        "waits_for",
    )

    def __init__(self, actor_class: type) -> None:
        self.actor_class = actor_class
        self.answers_in_place: bool = getattr(actor_class, "answers_in_place", False)
        self.waits_for: tuple[type, ...] = getattr(actor_class, "waits_for", ())
        self.has_on_start = self._overrides("on_start")
        self.has_after_batch = self._overrides("after_batch")
        self.has_run = self._overrides("run")
        self.plain: dict[type, Handler] = {}
        self.asynchronous: dict[type, Handler] = {}
        for message_class, function in _find_handlers(actor_class):
            self._add(message_class, function)

    def _add(self, message_class: type, function: FunctionType) -> None:
        taken = self.plain.get(message_class) or self.asynchronous.get(message_class)
        if taken is not None:
            raise TypeError(
                f"{self.actor_class.__qualname__} has two handlers for {message_class.__qualname__}: "
                f"{getattr(taken, '__name__', taken)} and {function.__name__}; keep one"
            )
        table = self.asynchronous if inspect.iscoroutinefunction(function) else self.plain
        table[message_class] = function

    def accepts(self, message_class: type) -> bool:
        """Return whether there is a handler, plain or async, for exactly this class."""
        return message_class in self.plain or message_class in self.asynchronous

    def _overrides(self, hook: str) -> bool:
        """Return whether the class defines a hook of its own, which is then worth a call."""
        function = getattr(self.actor_class, hook, None)
        return function is not None and function not in getattr(self.actor_class, "_empty_hooks", ())

    def no_handler(self, message: object) -> TypeError:
        """Return the error for the sender of a message without a handler."""
        known = sorted(one.__qualname__ for one in (*self.plain, *self.asynchronous))
        return TypeError(
            f"{self.actor_class.__qualname__} has no handler for {type(message).__qualname__}; it handles "
            f"{', '.join(known) or 'nothing'}. Write `def name(self, message: {type(message).__name__})` in the class"
        )


def handler_table(actor_class: type) -> HandlerTable:
    """Return the table of a class, which is built and checked at the first call.

    Raises:
        TypeError: a handler's annotations are missing, unknown, or do not fit its request.
    """
    table = vars(actor_class).get("_handler_table")
    if not isinstance(table, HandlerTable):
        table = HandlerTable(actor_class)
        actor_class._handler_table = table  # type: ignore[attr-defined]  # a cache, on the class that it describes
    return table


def describe_handlers(actor_class: type) -> str:
    """Return a text with the function of an actor class that handles each message, a line each.

    Handlers are found by their annotation, so a search for callers of one finds none; this is the way from a message
    to the code that runs.

    Raises:
        TypeError: a handler's annotations are missing, unknown, or do not fit its request.
    """
    table = handler_table(actor_class)
    rows = sorted((kind.__qualname__, function) for kind, function in {**table.plain, **table.asynchronous}.items())
    wide = max(len(name) for name, _ in rows)
    lines = [f"{name:{wide}}  {_place_of(function)}" for name, function in rows]
    return "\n".join(lines)


def _place_of(function: object) -> str:
    assert isinstance(function, FunctionType)
    code, kind = function.__code__, "async " if inspect.iscoroutinefunction(function) else ""
    return f"{kind}{function.__qualname__}  {function.__module__}:{code.co_firstlineno}"


def _find_handlers(actor_class: type) -> Iterator[tuple[type, FunctionType]]:
    """Find the methods that take one message: whose parameter is called ``message``, or public ones with any name."""
    for name in dir(actor_class):
        function = inspect.getattr_static(actor_class, name)
        if not isinstance(function, FunctionType) or not _takes_one(function):
            continue
        parameter = function.__code__.co_varnames[1]
        if parameter != "message" and (name.startswith("_") or parameter not in function.__annotations__):
            continue
        hints = _hints(actor_class, function, required=parameter == "message")
        annotation = hints.get(parameter)
        message_class = get_origin(annotation) or annotation
        if isinstance(message_class, type) and _is_message(message_class):
            _check_answer(actor_class, function, annotation, hints)
            yield message_class, function


def _takes_one(function: FunctionType) -> bool:
    code = function.__code__
    return code.co_argcount == 2 and code.co_kwonlyargcount == 0


def _is_message(message_class: type) -> bool:
    return issubclass(message_class, Message) and message_class not in (Message, Request)


def _hints(actor_class: type, function: FunctionType, *, required: bool) -> dict[str, object]:
    try:
        return get_type_hints(function)
    except NameError as error:
        if not required:
            return {}  # it may be no handler at all
        raise TypeError(
            f"{actor_class.__qualname__}.{function.__name__} looks like a handler, but its annotations cannot be "
            f"resolved ({error}); import or define what they name at run time, at module level"
        ) from error


def _check_answer(actor_class: type, function: FunctionType, annotation: object, hints: dict[str, object]) -> None:
    where = f"{actor_class.__qualname__}.{function.__name__}"
    promised = _promised_answer(annotation)
    if "return" not in hints:
        raise TypeError(f"{where} has no return annotation; write `-> {_spell(promised)}`")
    if not isinstance(promised, TypeVar) and hints["return"] != promised:
        raise TypeError(
            f"{where} returns {_spell(hints['return'])}, but {_spell(annotation)} promises {_spell(promised)}; "
            "make the two the same"
        )


def _promised_answer(annotation: object) -> object:
    """Find the R of the ``Request[R]`` that a message class or an alias of one descends from; ``NoneType`` without."""
    origin = get_origin(annotation) or annotation
    arguments = get_args(annotation)
    if origin is Request:
        return type(None) if arguments[0] is None else arguments[0]
    parameters = getattr(origin, "__parameters__", ())
    for base in getattr(origin, "__orig_bases__", getattr(origin, "__bases__", ())):
        if issubclass(get_origin(base) or base, Request):
            found = _resolve(_promised_answer(base), origin)
            return arguments[parameters.index(found)] if found in parameters and arguments else found
    return type(None)


def _resolve(answer: object, message_class: object) -> object:
    """Turn ``Request["Later"]`` into ``Later`` as the module of the message class knows it."""
    if not isinstance(answer, ForwardRef):
        return answer
    holder = type("holder", (), {"__annotations__": {"answer": answer}})
    module = sys.modules.get(getattr(message_class, "__module__", ""))
    return get_type_hints(holder, globalns=vars(module) if module else None)["answer"]


def _spell(annotation: object) -> str:
    if annotation is type(None):
        return "None"
    return annotation.__qualname__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
