"""The fields of a value as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

from circletools.errors import UsageError
from circletools.wording import SCHEMA_VERSION


def document_json(value: Any) -> dict[str, Any]:
    """Return the JSON document of a dataclass: its fields after the version of the schema."""
    if not is_dataclass(value):
        raise UsageError(f"a result of `ct.cost` or the like is needed, not {type(value).__name__}")
    return {"schema_version": SCHEMA_VERSION} | fields_json(value)


def fields_json(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass in order, recursively, as objects, lists and plain values."""
    return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}


def places_json(operators: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    """Return operators (subgraph, index) as objects."""
    return [{"subgraph": subgraph, "operator_index": index} for subgraph, index in operators]


def _plain(value: Any) -> Any:
    """Return a value for JSON: lists for tuples, objects for dataclasses, texts for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return fields_json(value) if hasattr(value, "__dataclass_fields__") else value
