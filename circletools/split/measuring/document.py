"""The document that `measure` writes, read for the report."""

from __future__ import annotations

from circletools.affinity.assign.documents import number_of, objects_of, read_document, text_of
from circletools.errors import InvalidInputError
from circletools.split.measuring.results import PartTime, PlanTime
from circletools.storage.strict_json import Object

_SEE = "see docs/costs.md"
_DOCUMENT = {"devices", "plans"}
_PLAN = {"name", "parts", "measured_us", "failure"}
_PART = {"device", "operators", "measured_us"}


def read_measured(words: str, name: str) -> tuple[PlanTime, ...]:
    """Return the plans of a document of `measure` that errors call `name`.

    Raises InvalidInputError where it is no such document, or nothing was measured.
    """
    document, place = read_document(words, name, _DOCUMENT, "`plans`", _SEE)
    if not document.get("plans"):
        raise InvalidInputError("nothing was measured: `plans` is missing", location=place, hint=_SEE)
    return tuple(_plan(entry, at) for entry, at in objects_of(document, "plans", name, _PLAN, _SEE))


def _plan(entry: Object, place: str) -> PlanTime:
    parts = tuple(_part(part, at) for part, at in objects_of(entry, "parts", place, _PART, _SEE))
    failure = entry.get("failure", "")
    if not isinstance(failure, str):
        raise InvalidInputError("`failure` must be a string", location=place, hint=_SEE)
    return PlanTime(text_of(entry, "name", place, _SEE), parts, _number(entry, "measured_us", place), failure)


def _part(entry: Object, place: str) -> PartTime:
    operators = entry.get("operators")
    if not isinstance(operators, list) or any(type(one) is not int or one < 0 for one in operators):
        raise InvalidInputError("`operators` must be a list of indices", location=place, hint=_SEE)
    return PartTime(text_of(entry, "device", place, _SEE), tuple(operators), _number(entry, "measured_us", place))


def _number(entry: Object, key: str, place: str) -> float | None:
    return None if entry.get(key) is None else number_of(entry, key, place, _SEE)
