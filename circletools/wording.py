"""Format words and numbers for human readers; define the schema version of JSON documents."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError, fields
from difflib import get_close_matches
from enum import Enum
from functools import cache, cached_property
from html import escape
from importlib import import_module
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

SCHEMA_VERSION = 1
"""The `schema_version` of every JSON document that circletools writes or reads."""

_LONGEST_COMPARED = 200  # the time to compare words is quadratic in their length
_LISTED = 8
_MOST_ROWS = 200  # the maximum number of rows in an HTML table, and of names to compare
_COMPARING = ("warn", "_compare", "__eq__", "__ne__")
_COMMAND_LINE = ("cli.", "circletool_cli.")  # in the sources, and installed
CHANGES = "ct.edit(model) changes a model; dataclasses.replace, list and dict make changed copies"
_Item = TypeVar("_Item")


class Word(str, Enum):
    """An enum whose members print as their values (Python 3.10 has no StrEnum)."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __eq__(self, other: object) -> bool:
        same = str.__eq__(self, other)
        if same is False and type(other) is str and other not in (words := type(self)._value2member_map_):
            warn(f"unknown {type(self).__name__} {other[:80]!r}; {suggestion(other, map(str, words))}", direct=True)
        return same

    __hash__ = str.__hash__


def milliseconds(time_ns: int) -> str:
    """Format a time in milliseconds, to the microsecond."""
    if -500 < time_ns < 0:  # not -0.000
        return "0.000"
    return f"{time_ns / 1e6:,.3f}"


def microseconds(time_ns: int) -> str:
    """Format a time in microseconds, to the nanosecond."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' * (time_ns < 0)}{whole}.{rest:03}"


def counted(count: int, what: str, many: str | None = None) -> str:
    """Format a count with its noun, as `1 run` or `2,000 runs`; `many` is an irregular plural."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def ranges(numbers: Iterable[int]) -> str:
    """Format ascending numbers as ranges, such as `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def numbered(numbers: Sequence[int], what: str) -> str:
    """Format a noun with ascending numbers, as `tensor 3` or `tensors 0-3,7`."""
    return f"{what if len(numbers) == 1 else what + 's'} {ranges(numbers)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the most similar known word, ignoring case; empty if none is similar.

    If none is similar but exactly one known word contains the given one, that word is used.
    """
    folded: dict[str, str] = {}
    for name in sorted(known):
        folded.setdefault(name.casefold(), name)
    given = word.casefold()[:_LONGEST_COMPARED]
    near = get_close_matches(given, folded, 1, 0.65) or [name for name in folded if len(given) > 2 and given in name]
    return folded[near[0]] if len(near) == 1 else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'npu'?` with the nearest known word; empty if none is similar."""
    return f"did you mean {near!r}?" if (near := nearest(word, known)) else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known word that was probably meant, or a list of known words."""
    names = sorted(known)
    parts = [
        name
        for name in names
        if name.startswith((f"{word.removesuffix('s')}_", f"{word}-")) or name.rstrip("0123456789") == word
    ]
    if len(parts) > 1:
        return f"write {', '.join(map(repr, parts[:_LISTED]))}"
    return did_you_mean(word, names) or f"available: {', '.join(names[:_LISTED])}{', …' * (len(names) > _LISTED)}"


class CallWarning(UserWarning):
    """A call or comparison that runs, but cannot be what was meant."""


def warn(message: str, direct: bool = False) -> None:
    """Warn at the line of a user's program that led here; with `direct`, only if that line itself uses == or !=."""
    try:
        frame, level = import_module("inspect").currentframe(), 1
    except ImportError:  # the interpreter is shutting down
        return
    while frame.f_back and (name := frame.f_globals.get("__name__", "")).startswith(("circletools", *_COMMAND_LINE)):
        if name.startswith(_COMMAND_LINE) or (direct and frame.f_code.co_name not in _COMPARING):
            return
        frame, level = frame.f_back, level + 1
    warnings.warn(message, CallWarning, stacklevel=level)


class EnumName(str):
    """A name from a list. Comparing it with a string, number or type that the list lacks causes a warning."""

    __slots__ = ("known", "what")
    known: Callable[[bool], Mapping[object, str]]
    what: str

    @classmethod
    def of(cls, name: str, what: str, known: Callable[[bool], Mapping[object, str]]) -> EnumName:
        """Return a name of the kind `what`; `known` returns all names (for True, of all formats), by name or id."""
        made = cls(name)
        made.what, made.known = what, known
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            is_type = name not in {"name", "value", "what"} and getattr(self, "what", "") == "tensor type"
            way = f"write tensor.numpy().dtype.{name}" if is_type else f"leave out .{name}"
            raise AttributeError(f"{str(self)!r} is a str and has no .{name} ({way})")

    def __eq__(self, other: object) -> bool:
        if (same := str.__eq__(self, other)) is not True:
            self._compare(other)
        return same

    def __ne__(self, other: object) -> bool:
        return same if (same := self.__eq__(other)) is NotImplemented else not same

    __hash__ = str.__hash__

    def __deepcopy__(self, _memo: object) -> EnumName:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)

    def _compare(self, other: object) -> None:
        is_type = isinstance(other, type) or (hasattr(other, "newbyteorder") and not hasattr(other, "__array__"))
        if isinstance(other, str):  # custom and unknown operators have a colon in their names
            is_known = not other or ":" in str(other) or other in self.known(False) or other in self.known(True)
        else:
            is_known = not (is_type or isinstance(other, int))
        if not is_known:
            all_, word = self.known(True), str(getattr(other, "__name__", other))[:80]
            shown = repr(word) if isinstance(other, str) else word
            warn(f"unknown {self.what} {shown}; {suggestion(all_.get(other) or word, {*all_.values()})}", direct=True)


class MissingError(AttributeError):
    """The error for a missing attribute; its message is composed only when read, since `hasattr` ignores it."""

    def __str__(self) -> str:
        return str(_answers().answer(f"has no attribute {self.name!r}", self.obj, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return AttributeError, (str(self),)


def missing(value: object, name: str) -> Any:
    """Raise MissingError; everything that explains wrong names has this as its `__getattr__`."""
    raise MissingError(name=name, obj=value)


def _answers() -> Any:
    """Return the module that makes error messages, which is imported at the first error."""
    return import_module("circletools.answers")


class Attributes:
    """An object whose errors list its attributes or items, as do the errors of tuples and dicts in a dataclass."""

    __slots__ = ()

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, answering in _answering(kind).items():
            if kind := answering.get(type(value := getattr(self, name))):
                object.__setattr__(self, name, kind(value))

    if not TYPE_CHECKING:  # a type checker reports these; other code tests for `__call__` and `__len__`

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            if "__dataclass_params__" in vars(cls):  # for slots, `dataclass` makes a second, similar class
                cls.__setattr__ = Attributes.__setattr__

        __getattr__ = missing

        def __getitem__(self, index: object) -> Any:
            inner = getattr(super(), "__getitem__", None)
            if inner is None:
                raise TypeError(_answers().answer("is not a list", self, index))
            try:
                return inner(index)
            except (IndexError, TypeError) as error:
                fault = error
            refuse_index(self, index)
            raise fault

        def __lt__(self, other: Any) -> Any:
            if (less := super().__lt__(other)) is not NotImplemented:
                return less
            key = next((one for one in ("index", "name", "code") if hasattr(self, one)), "_")
            raise TypeError(f"{type(self).__name__} has no order (write sorted(items, key=lambda one: one.{key}))")

        def __radd__(self, other: object) -> Any:
            if not isinstance(other, str):
                return NotImplemented
            raise TypeError(f"{type(self).__name__} is not a str (write str(value))")

        def __setitem__(self, index: object, value: object) -> None:
            if inner := getattr(super(), "__setitem__", None):
                return inner(index, value)
            raise TypeError(f"{type(self).__name__} is read-only ({_answers().change(self, 'setitem', value)})")

        def __delitem__(self, index: object) -> None:
            raise TypeError(f"{type(self).__name__} is read-only ({_answers().change(self, 'delitem', index)})")

        def __setattr__(self, name: str, value: object) -> None:
            params = getattr(self, "__dataclass_params__", None)
            if (params and params.frozen) or isinstance(getattr(type(self), name, None), cached_property):
                hint = _answers().change(self, f"set_{name}", value)
                raise FrozenInstanceError(f"{type(self).__name__}.{name} is read-only ({hint})")
            object.__setattr__(self, name, value)


@cache
def _answering(kind: Any) -> dict[str, Mapping[type, Callable[[Any], object]]]:
    """Return the fields of a dataclass that hold dicts, tuples of anything but numbers, or one of a few words."""
    found: dict[str, Mapping[type, Callable[[Any], object]]] = {}
    for one in fields(kind):
        hint = str(one.type)
        if re.match(r"tuple\[(?!int|float|bool)|Mapping\[|dict\[", hint):
            found[one.name] = {tuple: Items, dict: Named}
        elif get_origin(words := vars(sys.modules[kind.__module__]).get(hint)) is Literal:
            found[one.name] = {str: one_of(one.name, get_args(words))}
    return found


def one_of(what: str, words: Sequence[str], kind: type[EnumName] = EnumName) -> Callable[[_Item], _Item]:
    """Return a function that makes an EnumName of each of a few words; others stay strings."""
    known: Mapping[object, str] = {word: word for word in words}
    names: dict[Any, Any] = {word: kind.of(word, what, lambda _every: known) for word in words}
    return lambda word: names.get(word, word)


class Named(dict[str, Any]):
    """A dict of values by name, whose errors list the names."""

    change = CHANGES

    if not TYPE_CHECKING:

        def __setitem__(self, *given: object, **_named: object) -> None:
            code = ", ".join(map(repr, given))
            raise TypeError(f"values by name are read-only ({re.sub('name, value', lambda _: code, self.change)})")

        __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = __setitem__

        def __reduce__(self) -> tuple[Any, ...]:
            return type(self), (dict(self),)

    def __missing__(self, name: str) -> Any:
        raise KeyError(_answers().no_key(self, name))

    def __getattr__(self, name: str) -> Any:
        hint = f"write [{name!r}]" if name in self else suggestion(name, map(str, islice(self, _MOST_ROWS)))
        raise AttributeError(f"there is no attribute {name!r} ({hint})")


def refuse_words(search: Callable[..., Any]) -> Callable[..., Any]:
    """Return a search method that raises TypeError for a string, unless items are strings."""

    def run(self: Sequence[object], value: object, *bounds: int) -> Any:
        if isinstance(value, str) and self and not isinstance(self[0], str):
            find = _answers().by_name(self, value)
            raise TypeError(f"items are of type {type(self[0]).__name__}, not str" + f" ({find})" * bool(find))
        return search(self, value, *bounds)

    return run


class Items(Attributes, tuple[_Item, ...]):
    """A tuple whose errors show how to get an item."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __contains__ = refuse_words(tuple.__contains__)
        index, count = refuse_words(tuple.index), refuse_words(tuple.count)


class Index(int):
    """An index into a list of the model, as opposed to the item itself."""

    of = ""

    if not TYPE_CHECKING:
        __getattr__ = missing


class TensorIndex(Index):
    """The index of a tensor in its subgraph."""

    of = "model.subgraphs[0].tensors"


class SubgraphIndex(Index):
    """The index of a subgraph in its model."""

    of = "model.subgraphs"


class BufferIndex(Index):
    """The index of a buffer in its model."""

    of = "model.buffers"


def refuse_index(items: Sequence[object], index: object, negative: str | None = None) -> None:
    """Raise TypeError for an index of a wrong type, and IndexError for one that is out of range.

    `negative` explains a negative number that does not count from the end.
    """
    if isinstance(index, slice):
        return
    if hasattr(index, "__index__") and not getattr(index, "shape", ()):
        number = index.__index__()
        if not -len(items) <= number < len(items) or (number < 0 and negative is not None):
            hint = f"the last index is {len(items) - 1}" if items else "test for an empty list first"
            fault = f"there is no item {index}: the list has {counted(len(items), 'item')} ({hint})"
            raise IndexError(negative if negative and number < 0 else fault)
        return
    raise TypeError(_answers().wrong_index(items, index))


class Tabular(Attributes):
    """A value that can be shown as a table: rows for dataframes, HTML in notebooks, or one line in a terminal."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dict of plain values for each row, all with the same keys, as `pandas.DataFrame` accepts them."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {counted(len(self.to_rows()), 'row')}>"

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        return html_table(rows, len(rows))


def html_table(rows: Iterable[Mapping[str, object]], count: int) -> str:
    """Format the first 200 of `count` rows as an HTML table; all rows have the same keys."""
    rows = list(islice(rows, _MOST_ROWS))
    lines = [rows[0], *(row.values() for row in rows)] if rows else []
    cells = (
        "".join(f"<{tag}>{escape('' if cell is None else str(cell))}</{tag}>" for cell in line)
        for tag, line in zip(chain(["th"], repeat("td")), lines, strict=False)
    )
    rest = f"<p>{counted(count - len(rows), 'more row')}</p>" if count > len(rows) else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>{rest}"
