"""Code for a request, such as FitRequest, from the arguments that a user gave to the function that takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from circletools.arguments import classes_in, declared, fits, taken
from circletools.corrections.rules import meant, placement
from circletools.corrections.snippets import Variables, maker_of, shown
from circletools.corrections.words import foreign, same_name

Named = dict[str, Any]


def request_of(hint: Any) -> type | None:
    """Return the class in an annotation whose objects are made of plain values only; None if there is none."""
    endings = ("Request", "Description", "Selection")
    return next((one for one in classes_in(hint) if one.__name__.endswith(endings)), None)


def any_meant(values: list[Any], unknown: Named, hint: Any, place: str, variables: Variables) -> str:
    """Return code for the argument that misplaced values and unknown keywords stand for; empty if unknown."""
    if (kind := request_of(hint)) and (values or unknown):
        return request(kind, values, unknown, variables)
    if len(values) > 1:
        return _paired(values, hint) or shown(tuple(values), "", []) * fits(tuple(values), hint)
    return meant(values[0], hint, place, variables) if values else ""


def _paired(values: list[Any], hint: Any) -> str:
    """Return code for a list with one pair of values; empty if this does not fit."""
    pairs = ([tuple(values)], [(str(values[0]), *values[1:])]) if len(values) > 1 else ()
    return next((shown(one, "", []) for one in pairs if fits(one, hint)), "")


def request(kind: type, values: list[Any], unknown: Named, variables: Variables) -> str:
    """Return code for a request with these unnamed values and named fields, or for any request if none fits."""
    made, hints, found = maker_of(kind), declared(kind)[1], dict[str, str]()
    if len(values) == 1 and isinstance(values[0], Mapping) and {*values[0]} <= {*taken(kind)}:
        values, unknown = [], dict(values[0])
    elif kind.__name__ == "PlanRequest" and len(values) == 1 and (fields := placement(values[0])):
        values, unknown = [], fields | unknown
    for word, value in unknown.items():
        if name := same_name(word, taken(kind)):
            found[name] = meant(value, hints[name], f"{kind.__name__}.{name}", variables)
    if any(isinstance(one, np.ndarray) for one in values):
        found["inputs"] = foreign()["given"].get(f"{kind.__name__}.inputs", "")
    values = values * all(shown(one, "", []) for one in values)
    for name in taken(kind):
        if pair := _paired(values, hints[name]):
            found[name], values = pair, []
    if len(values) > 1 and len(fields := placed(kind, values)) == len(values):
        found, values = {name: repr(value) for name, value in fields.items()} | found, []
    for name in sorted(taken(kind), key=lambda one: f"{one}=" not in made):
        if (
            values
            and name not in found
            and (code := any_meant(values, {}, hints[name], f"{kind.__name__}.{name}", variables))
        ):
            found[name], values = code, []
    given = ", ".join(f"{name}={code}" for name, code in found.items() if code)
    return f"{made.partition('(')[0]}({given})" if given else made


def placed(kind: type, values: list[Any]) -> Named:
    """Assign each value to the next field of a class that it fits; path fields and inherited fields come last."""
    hints, forms = declared(kind)[1], foreign()["forms"]
    ordered = sorted(taken(kind), key=lambda one: (one not in kind.__annotations__, "Path" in str(hints[one])))
    if len(values) == 1 and fits([*values], hints[ordered[0]]):
        return {ordered[0]: [*values]}
    fields, found, is_wrapped = iter(ordered), Named(), bool({*forms} & {*ordered})
    for value in values:
        for own in fields:
            made = next((one for one in (value, [value])[: 1 + is_wrapped] if fits(one, hints[own])), None)
            if made is not None and re.fullmatch(forms.get(own, ".*"), str(made), re.DOTALL):
                found[own] = made
                break
    return found
