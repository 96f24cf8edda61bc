"""The fields of a value as JSON."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from circletools.wording import SCHEMA_VERSION


class Record(Protocol):
    """A dataclass, as functions of `ct` return."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


def document_json(value: Record) -> dict[str, Any]:
    """Return the JSON document of a dataclass: its fields after the version of the schema."""
    return {"schema_version": SCHEMA_VERSION} | fields_json(value)


def fields_json(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass in order, recursively, as objects, lists and plain values."""
    return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return fields_json(value) if hasattr(value, "__dataclass_fields__") else value
