"""Capability tables as JSON (docs/capabilities.md), read strictly because people write them by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, NoReturn, TypeVar

from circletools.affinity.capability.comparison import Comparison, parse_comparison
from circletools.affinity.capability.form import (
    ANY,
    Bounds,
    ContextRule,
    Form,
    Kind,
    Link,
    OptionValues,
    Places,
    Rule,
    TensorPattern,
)
from circletools.affinity.capability.table import Capability
from circletools.affinity.capability.traits import HAS_OPTIONS, QUANTIZABLE, QUANTIZATIONS
from circletools.errors import InvalidInputError, UsageError, shortened
from circletools.flatbuf.schema import load_schema
from circletools.model.options import enum_of, text_number
from circletools.storage.documents import read_bytes, read_json
from circletools.wording import did_you_mean, suggestion

T = TypeVar("T")

SCHEMA_VERSION = "1"
_KEYS = (
    *("schema_version", "device", "runtime", "method", "measured", "operators"),
    *("context", "rules", "unread", "float_model"),
)
_RULE_KEYS = ("operators", "without", "when", "needs", "reason", "remedy", "known", "probes", "wrong")
_PAIR_KEYS = ("first", "then", "through", "link", "reason", "remedy", "wrong", "returned")
FORM_KEYS = (
    *("types", "inputs", "min_inputs", "max_inputs", "outputs", "min_outputs", "max_outputs"),
    *("min_rank", "max_rank", "min_version", "max_version", "static", "options", "where", "unpacks"),
)
_KINDS: tuple[Kind, ...] = ("computed", "constant")
_LINKS: tuple[Link, ...] = ("feeds", "shares")
_MORE = "..."
_LARGEST = 1 << 64
_MOST_FORMS = 20_000  # ten times the number in the largest built-in table
_LONGEST = 1000  # the longest string allowed, since it is repeated for every operator concerned


def shipped_devices() -> tuple[str, ...]:
    """Return the names of the devices with a built-in table."""
    folder = resources.files(__package__) / "tables"
    return tuple(sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json")))


def load_capability(name: str) -> Capability:
    """Return the built-in table with this name, or the table in a file whose name ends in `.json`.

    Raises UsageError for an unknown device, and InvalidInputError for a file that cannot be read or is malformed.
    """
    shipped = shipped_devices()
    if name in shipped:  # the tests read all of it strictly
        resource = resources.files(__package__) / "tables" / f"{name}.json"
        return _Reader(f"{name}.json").capability(json.loads(resource.read_bytes()))
    if not name.endswith(".json"):
        hint = suggestion(name, shipped)
        hint += "; a file name must end in .json" * hint.startswith("available")
        raise UsageError(f"there is no capability table {name!r}", hint=hint)
    return parse_capability(read_bytes(name), name)


def parse_capability(data: bytes, name: str) -> Capability:
    """Parse a table; errors call it `name`. Raises InvalidInputError with the location."""
    found = _Reader(name).capability(read_json(data, name))
    _ = [[*table.values()] for table in found.tables()]  # read all forms, to find mistakes
    return found


@cache
def _names(enum: str) -> frozenset[str]:
    """Return the member names of an enum of the TFLite or Circle schema."""
    return frozenset(name for form in ("tflite", "circle") for name in load_schema(form).enums[enum].values())


def _codes() -> frozenset[str]:
    return _names("BuiltinOperator") - {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}


@cache
def _options() -> frozenset[str]:
    tables = [one for form in ("tflite", "circle") for one in load_schema(form).tables.values()]
    options = (field for table in tables if table.name.endswith("Options") for field in table.fields)
    return frozenset(field.name for field in options if field.kind in {"scalar", "string"}) | {HAS_OPTIONS}


@cache
def _text_options() -> frozenset[str]:
    tables = load_schema("tflite").tables.values()
    every = {field.name for table in tables for field in table.fields if field.kind == "string"}
    numbers = {field.name for table in tables for field in table.fields if field.kind == "scalar"}
    return frozenset(every & _options()) - numbers


@cache
def _values(option: str) -> Mapping[int, str]:
    enum = "MirrorPadMode" if option == "mode" else enum_of(option)
    return load_schema("tflite").enums[enum] if enum else {}


class _Forms(Mapping[str, tuple[Form, ...]]):
    """Forms by operator code; each is read when it is needed, since models have few of the codes in a table."""

    def __init__(self, codes: Iterable[str], read: Callable[[str], tuple[Form, ...]]) -> None:
        self._codes, self._read = dict.fromkeys(codes), cache(read)

    def __getitem__(self, code: str) -> tuple[Form, ...]:
        if code not in self._codes:
            raise KeyError(code)
        return self._read(code)

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)


class _Reader:
    """A reader of one document, which reports the location of mistakes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._read: dict[str, TensorPattern] = {}  # tables repeat a few patterns and places very often
        self._read_places: dict[str, Places] = {}
        self._forms_read = 0

    def _fail(self, place: str, message: str, hint: str = "") -> NoReturn:
        location = f"{self._name}: {shortened(place)}" if place else self._name
        raise InvalidInputError(message, location=location, hint=hint or None)

    def _typed(self, value: Any, kind: type[T], place: str, words: str) -> T:
        if not isinstance(value, kind):
            self._fail(place, f"must be {words}")
        return value

    def _text(self, value: Any, place: str) -> str:
        found = self._typed(value, str, place, "a string")
        return found if len(found) <= _LONGEST else self._fail(place, f"has more than {_LONGEST:,} characters")

    def _object(self, value: Any, place: str, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
        found = self._typed(value, dict, place, "an object")
        for key in found:
            if keys is not None and key not in keys:
                hint = did_you_mean(key, keys) or f"known keys: {', '.join(keys)}"
                self._fail(place, f"unknown key {key!r}", hint)
        return found

    def _list(self, value: Any, place: str) -> list[Any]:
        words = "a nonempty list"
        return self._typed(value, list, place, words) or self._fail(place, f"must be {words}")

    def capability(self, document: Any) -> Capability:
        top = self._object(document, "", _KEYS)
        if top.get("schema_version", SCHEMA_VERSION) not in (SCHEMA_VERSION, int(SCHEMA_VERSION)):
            version = f"schema_version {top['schema_version']!r} is not known"
            self._fail("schema_version", version, f'this program reads "{SCHEMA_VERSION}"')
        if "operators" not in top:
            self._fail("", "has no operators")
        written = self._object(top["operators"], "operators")
        for code in written:
            self._code(code, "operators")
        operators = _Forms(written, lambda code: self._forms(written[code], f"operators.{code}"))
        device, runtime, method = (self._text(top.get(key, ""), key) for key in ("device", "runtime", "method"))
        measured = self._groups(self._list(top["measured"], "measured"), "measured") if "measured" in top else None
        name = device or self._name.removesuffix(".json")
        context, rules = self._several(top, "context", self._pair), self._several(top, "rules", self._rule)
        unread = {
            self._code(code, "unread"): self._typed(place, int, f"unread.{code}", "a whole number")
            for code, place in self._object(top.get("unread", {}), "unread").items()
        }
        floats = self._text(top.get("float_model", ""), "float_model")
        return Capability(name, operators, runtime, method, measured, context, rules, unread, floats)

    def _flag(self, value: Mapping[str, Any], key: str, place: str, default: bool = False) -> bool:
        return self._typed(value.get(key, default), bool, f"{place}.{key}", "true or false")

    def _groups(self, entries: list[Any], place: str) -> Mapping[str, tuple[Form, ...]]:
        places: dict[str, list[int]] = {}
        for index, entry in enumerate(entries):
            for code in self._codes_of(self._object(entry, f"{place}[{index}]"), f"{place}[{index}]"):
                places.setdefault(code, []).append(index)
        form = cache(lambda index: self._form_of(entries[index], f"{place}[{index}]"))
        return _Forms(places, lambda code: tuple(map(form, places[code])))

    def _group(self, value: Any, place: str) -> dict[str, tuple[Form, ...]]:
        """Return the form of an entry for each of its operators."""
        group = self._object(value, place)
        return dict.fromkeys(self._codes_of(group, place), (self._form_of(group, place),))

    def _form_of(self, group: Mapping[str, Any], place: str) -> Form:
        return self._form({key: group[key] for key in group if key != "operators"}, place)

    def _codes_of(self, group: Mapping[str, Any], place: str) -> list[str]:
        place = f"{place}.operators"
        return [self._code(self._text(code, place), place) for code in self._list(group.get("operators"), place)]

    def _several(self, top: Mapping[str, Any], key: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
        found = self._typed(top.get(key, []), list, key, "a list")
        return tuple(read(one, f"{key}[{index}]") for index, one in enumerate(found))

    def _rule(self, value: Any, place: str) -> Rule:
        rule = self._object(value, place, _RULE_KEYS)
        codes, without = (
            frozenset(self._code(self._text(code, f"{place}.{key}"), f"{place}.{key}") for code in codes)
            for key, codes in (
                ("operators", self._list(rule.get("operators"), f"{place}.operators")),
                ("without", self._typed(rule.get("without", []), list, f"{place}.without", "a list")),
            )
        )
        needs = rule.get("needs", [])
        needs = self._forms([needs] if isinstance(needs, dict) else needs, f"{place}.needs")
        when = self._form(rule["when"], f"{place}.when") if "when" in rule else None
        reason, remedy = (self._text(rule.get(key, ""), f"{place}.{key}") for key in ("reason", "remedy"))
        if not reason and not needs:
            self._fail(place, "needs a reason, or forms in `needs`")
        known, wrong = self._flag(rule, "known", place, True), self._flag(rule, "wrong", place)
        return Rule(codes, without, when, needs, reason, remedy, known, wrong)

    def _pair(self, value: Any, place: str) -> ContextRule:
        rule: dict[str, Any] = {"first": None, "then": None, "through": [], "link": "feeds"}
        rule |= self._object(value, place, _PAIR_KEYS)
        if rule["link"] not in _LINKS:
            self._fail(f"{place}.link", f"must be one of {', '.join(_LINKS)}")
        first, then, through = (
            (self._groups if isinstance(rule[key], list) else self._group)(rule[key], f"{place}.{key}")
            for key in ("first", "then", "through")
        )
        words = (("reason", "refused together"), ("remedy", ""))
        reason, remedy = (self._text(rule.get(key, default), f"{place}.{key}") for key, default in words)
        wrong, returned = (self._flag(rule, key, place) for key in ("wrong", "returned"))
        return ContextRule(first, then, rule["link"], reason, remedy, wrong, through, returned)

    def _code(self, code: str, place: str) -> str:
        if code != ANY and not code.startswith("CUSTOM:") and code not in _codes():
            hint = did_you_mean(code, _codes()) or "write a custom operator as CUSTOM: and its custom code"
            self._fail(place, f"unknown operator {code!r}", hint)
        return code

    def _forms(self, value: Any, place: str) -> tuple[Form, ...]:
        forms = self._typed(value, list, place, "a list of forms")
        return tuple(self._form(form, f"{place}[{index}]") for index, form in enumerate(forms))

    def _form(self, value: Any, place: str) -> Form:
        form = self._object(value, place, FORM_KEYS)
        self._forms_read += 1
        if self._forms_read > _MOST_FORMS:
            self._fail(place, f"exceeds the limit of {_MOST_FORMS:,} forms in a table")
        types = None
        if "types" in form:
            entries = self._list(form["types"], f"{place}.types")
            types = self._patterns(entries, f"{place}.types")
        return Form(
            types,
            self._places(form, "inputs", place),
            self._places(form, "outputs", place),
            self._bounds(form, "rank", place, 0),
            self._bounds(form, "version", place, 1),
            self._open(form, place),
            self._flag(form, "unpacks", place),
            {
                name: self._option(name, allowed, f"{place}.options.{name}")
                for name, allowed in self._object(form.get("options", {}), f"{place}.options").items()
            },
            self._bounds(form, "inputs", place, 0),
            self._bounds(form, "outputs", place, 0),
            self._comparisons(form["where"], f"{place}.where") if "where" in form else (),
        )

    def _comparisons(self, value: Any, place: str) -> tuple[Comparison, ...]:
        return tuple(self._comparison(text, f"{place}[{at}]") for at, text in enumerate(self._list(value, place)))

    def _comparison(self, value: Any, place: str) -> Comparison:
        try:
            comparison = parse_comparison(self._text(value, place))
        except ValueError as error:
            self._fail(place, str(error))
        for name in comparison.terms:
            if isinstance(name, str) and name not in _options():
                self._fail(place, f"no operator has an option {name!r}", did_you_mean(name, _options()))
        return comparison

    def _places(self, form: Mapping[str, Any], key: str, place: str) -> Places | None:
        if key not in form:
            return None
        if (written := repr(form[key])) in self._read_places:
            return self._read_places[written]
        entries = self._typed(form[key], list, f"{place}.{key}", "a list")
        more = entries[-1:] == [_MORE]
        if more and len(entries) == 1:
            self._fail(f"{place}.{key}[0]", "repeats nothing: no entry precedes it")
        found = []
        for index, entry in enumerate(entries[: len(entries) - more]):
            at = f"{place}.{key}[{index}]"
            found.append(self._patterns(self._list(entry, at) if isinstance(entry, list) else [entry], at))
        return self._read_places.setdefault(written, Places(tuple(found), more))

    def _patterns(self, texts: list[Any], place: str) -> tuple[TensorPattern, ...]:
        found: dict[TensorPattern, None] = {}
        for index, text in enumerate(texts):
            words = self._text(text, f"{place}[{index}]")
            if words not in self._read:
                self._read[words] = self._pattern(words, f"{place}[{index}]")
            found[self._read[words]] = None
        return tuple(found)

    def _pattern(self, text: str, place: str) -> TensorPattern:
        words = text.split()
        if words == ["none"]:
            return TensorPattern("*", none=True)
        if not words:
            self._fail(place, "must name a type", "`*` stands for any type, and `none` for an omitted input")
        kind, *rest = words
        if kind != ANY and kind not in _names("TensorType"):
            self._fail(place, f"unknown type {kind!r}", did_you_mean(kind, _names("TensorType")))
        quantization = next((word for word in rest if word in QUANTIZATIONS), "")
        constness: Kind = next((word for word in _KINDS if word in rest), "")
        for word in rest:
            known = (*QUANTIZATIONS, *_KINDS)
            if word not in known:
                self._fail(place, f"unknown word {word!r}", did_you_mean(word, known))
            if word not in {quantization, constness} or rest.count(word) > 1:
                self._fail(place, f"{word!r} repeats or contradicts another word")
        if quantization and kind not in QUANTIZABLE | {ANY}:
            self._fail(place, f"{kind} tensors have no quantization", f"remove {quantization}")
        return TensorPattern(kind, quantization, constness)

    def _bounds(self, form: Mapping[str, Any], what: str, place: str, least: int) -> Bounds:
        low, high = (form.get(f"{end}_{what}") for end in ("min", "max"))
        for end, value in (("min", low), ("max", high)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                self._fail(f"{place}.{end}_{what}", f"must be a whole number of at least {least}")
        if low is not None and high is not None and low > high:
            self._fail(f"{place}.max_{what}", f"is less than min_{what}, so nothing can match")
        return Bounds(least if low is None else low, math.inf if high is None else high)

    def _open(self, form: Mapping[str, Any], place: str) -> int:
        static = form.get("static", False)
        if static == "batch":
            return 1
        return 0 if self._typed(static, bool, f"{place}.static", "true, false or batch") else 2

    def _option(self, name: str, allowed: Any, place: str) -> OptionValues:
        if name not in _options():
            self._fail(place, f"no operator has an option {name!r}", did_you_mean(name, _options()))
        if name in _text_options():
            texts = [self._text(text, place) for text in self._list(allowed, place)]
            known = {int(text_number(text.encode())): text for text in texts}
            return OptionValues(frozenset(map(float, known)), shortened(" or ".join(texts), _LONGEST), known)
        names = _values(name)
        if isinstance(allowed, dict):
            limits = self._object(allowed, place, ("min", "max"))
            if not limits:
                self._fail(place, "must have min or max")
            low = self._number(limits["min"], f"{place}.min") if "min" in limits else -math.inf
            high = self._number(limits["max"], f"{place}.max") if "max" in limits else math.inf
            word = "" if len(limits) == 2 else "at least " if "min" in limits else "at most "
            text = word + " to ".join(f"{limits[end]}" for end in ("min", "max") if end in limits)
            return OptionValues(frozenset(), text, names, low, high)
        entries = self._list(allowed, place)
        values = frozenset(self._value(value, names, f"{place}[{index}]") for index, value in enumerate(entries))
        return OptionValues(values, shortened(" or ".join(map(str, entries)), _LONGEST), names)

    def _value(self, value: Any, names: Mapping[int, str], place: str) -> float:
        if not names:
            return self._number(value, place)
        number = next((number for number, known in names.items() if value == known), None)
        if number is None:
            hint = did_you_mean(value, names.values()) if isinstance(value, str) else ""
            self._fail(place, f"unknown value {value!r}", hint or f"available: {', '.join(names.values())}")
        return number

    def _number(self, value: Any, place: str) -> float:
        if not isinstance(value, int | float):
            self._fail(place, "must be a number, true or false")
        if abs(value) > _LARGEST:
            self._fail(place, "is too large")
        return float(value)
