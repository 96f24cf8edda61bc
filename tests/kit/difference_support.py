"""What the tests of differences share: fields of a model changed by the published object API, and where they are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from circletools.diff.difference import SECTIONS, ModelDifference, Section, compare_models
from circletools.flatbuf.comparison import Difference
from circletools.flatbuf.schema import Field, Schema, load_schema
from circletools.model.model import open_model
from tests.kit.support import ENDINGS, generated, packed


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """A field of an object of the object API: its table's type and path, the object, the attribute."""

    type: str
    path: str
    owner: Any
    attribute: str
    field: Field


def compared(before: bytes, after: bytes, *sections: Section) -> ModelDifference:
    """Compare two models in memory."""
    with open_model(before) as old, open_model(after) as new:
        return compare_models(old, new, sections or SECTIONS)


def differences(before: bytes, after: bytes, *sections: Section) -> list[Difference]:
    """Return the differences between two models."""
    return [change.difference for change in compared(before, after, *sections).changes]


def paths(before: bytes, after: bytes, *sections: Section) -> list[tuple[str, str]]:
    """Return kind and path of each difference."""
    return [(one.kind, one.path) for one in differences(before, after, *sections)]


def schema_of(identifier: bytes) -> Schema:
    """Return our schema for the format."""
    return load_schema("circle" if ENDINGS[identifier] == "circle" else "tflite")


def sites(model: Any, schema: Schema) -> Iterator[Site]:
    """Yield every field of every object in a model of the object API."""
    yield from _sites(model, schema, "Model", "")


def _sites(owner: Any, schema: Schema, type_name: str, path: str) -> Iterator[Site]:
    attributes = {name.lower(): name for name in vars(owner)}
    for field in schema.tables[type_name].fields:
        attribute = attributes.get(field.name.replace("_", ""))
        if attribute is None:  # the generated code leaves deprecated fields out
            assert field.deprecated, (type_name, field.name)
            continue
        place = f"{path}.{field.name}" if path else field.name
        yield Site(type_name, place, owner, attribute, field)
        value = getattr(owner, attribute)
        if field.kind == "vector" and field.target is not None:
            for index, element in enumerate(value or ()):
                yield from _sites(element, schema, field.target, f"{place}[{index}]")
        elif value is not None and field.kind in ("table", "union"):
            yield from _sites(value, schema, type(value).__name__.removesuffix("T"), place)


def mutated(site: Site, schema: Schema, identifier: bytes, chosen: random.Random) -> tuple[Any, str] | None:
    """Return another value for a field, and the path of the difference; None where it cannot be changed alone."""
    value, field = getattr(site.owner, site.attribute), site.field
    codes = [other.type_slot for other in schema.tables[site.type].fields]
    if field.kind == "union" or (field.kind == "table" and value is not None) or field.slot in codes:
        return None
    if field.kind == "scalar":
        return (not value if isinstance(value, bool) else value + 1), site.path
    if field.kind == "string":
        return (b"absent before" if value is None else value + b"'"), site.path
    if field.target is None:
        return _other_vector(value, field, site.path, chosen)
    fresh = generated(f"{field.target}T", identifier)()
    return (fresh, site.path) if field.kind == "table" else _longer(value, fresh, field, site.path)


def _longer(value: Any, fresh: Any, field: Field, path: str) -> tuple[Any, str]:
    """Append to a vector of tables."""
    elements = [] if value is None else list(value)
    if field.target == "Buffer":
        fresh.data = np.frombuffer(b"a new buffer", np.uint8)  # an empty one that nobody names is not a difference
    return [*elements, fresh], "metadata[#absent]" if field.target == "Metadata" else f"{path}[{len(elements)}]"


def _other_vector(value: Any, field: Field, path: str, chosen: random.Random) -> tuple[Any, str]:
    """Change an element of a vector of numbers, or append one."""
    values = np.array([] if value is None else value, field.dtype)
    if not len(values) or chosen.random() < 0.3:
        return np.append(values, values.dtype.type(1)), path
    index = chosen.randrange(len(values))
    values[index] += 1
    return values, f"{path}[{index}]" if len(values) <= 16 else path


def repacked(model: Any, identifier: bytes, values: Mapping[Site, Any]) -> bytes:
    """Return the file of a model in which some fields have other values; the model itself stays as it is."""
    old = {site: getattr(site.owner, site.attribute) for site in values}
    try:
        for site, value in values.items():
            setattr(site.owner, site.attribute, value)
        return packed(model, identifier)
    finally:
        for site, value in old.items():
            setattr(site.owner, site.attribute, value)
