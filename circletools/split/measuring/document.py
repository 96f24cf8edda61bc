"""What was measured, as documents of costs have it: read for the report."""

from __future__ import annotations

from math import inf

from circletools.affinity.assign.documents import number_of, objects_of, read_document, text_of
from circletools.errors import InvalidInputError
from circletools.split.measuring.results import PartTime, PlanTime
from circletools.storage.strict_json import Object

_SEE = "see docs/costs.md"
_DOCUMENT = {"devices", "transfers", "measured"}
_PLAN = {"name", "parts", "predicted_us", "measured_us", "ratio", "failure", "is_chosen"}
_PART = {"device", "operators", "predicted_us", "measured_us"}


def read_measured(words: str, name: str) -> tuple[PlanTime, ...]:
    """Return the plans that were measured side by side, of a document that errors call `name`.

    Raises InvalidInputError where it is no such document, or nothing was measured.
    """
    document, place = read_document(words, name, _DOCUMENT, "`measured`", _SEE)
    measured = document.get("measured")
    if not isinstance(measured, Object):
        raise InvalidInputError("nothing was measured: `measured` is missing", location=place, hint=_SEE)
    return tuple(_plan(entry, at) for entry, at in objects_of(measured, "plans", name, _PLAN, _SEE))


def _plan(entry: Object, place: str) -> PlanTime:
    parts = tuple(_part(part, at) for part, at in objects_of(entry, "parts", place, _PART, _SEE))
    predicted, failure = _number(entry, "predicted_us", place), entry.get("failure", "")
    if not isinstance(failure, str):
        raise InvalidInputError("`failure` must be a string", location=place, hint=_SEE)
    measured = _number(entry, "measured_us", place)
    chosen = entry.get("is_chosen") is True
    return PlanTime(text_of(entry, "name", place, _SEE), parts, _known(predicted), measured, failure, chosen)


def _part(entry: Object, place: str) -> PartTime:
    operators = entry.get("operators")
    if not isinstance(operators, list) or any(type(one) is not int or one < 0 for one in operators):
        raise InvalidInputError("`operators` must be a list of indices", location=place, hint=_SEE)
    predicted, measured = _number(entry, "predicted_us", place), _number(entry, "measured_us", place)
    return PartTime(text_of(entry, "device", place, _SEE), tuple(operators), _known(predicted), measured)


def _known(predicted_us: float | None) -> float:
    return inf if predicted_us is None else predicted_us


def _number(entry: Object, key: str, place: str) -> float | None:
    return None if entry.get(key) is None else number_of(entry, key, place, _SEE)
