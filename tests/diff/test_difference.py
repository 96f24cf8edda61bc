"""Differences between models: each field where it is and nothing else, and what belongs together found again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from circletools.diff.difference import ModelDifference
from circletools.diff.summary import Summary, summarize
from circletools.edit.compact import compact_parts
from circletools.model.model import open_model
from circletools.storage.files import view
from tests.kit.build import row
from tests.kit.difference_models import twice_listed
from tests.kit.difference_support import Site, compared, differences, mutated, paths, repacked, schema_of, sites
from tests.kit.partition_support import seeded
from tests.kit.support import ENDINGS, bytes_of, generated, own_models, packed, read, unpacked

FORMATS = [pytest.param(identifier, id=name) for identifier, name in ENDINGS.items()]


def own_sites(identifier: bytes) -> Iterator[tuple[bytes, Any, Site]]:
    """Yield the fields of all models of a format, with the model as bytes and as objects."""
    for path in own_models():
        data = path.read_bytes()
        if data[4:8] == identifier and "external" not in path.stem:  # packing loses what is behind the flatbuffer
            model = unpacked(data)
            base = packed(model, identifier)
            yield from ((base, model, site) for site in sites(model, schema_of(identifier)))


@pytest.mark.parametrize("identifier", FORMATS)
def test_each_field_is_reported_where_it_is_and_nothing_else(identifier: bytes) -> None:
    """Change each field of each table in the test models, one by one, somewhere."""
    chosen, schema = seeded(7), schema_of(identifier)
    found: dict[tuple[str, str], list[tuple[bytes, Any, Site]]] = {}
    for one in own_sites(identifier):
        found.setdefault((one[2].type, one[2].field.name), []).append(one)
    wrong, tried = [], 0
    for candidates in list(found.values())[::2]:
        base, model, site = chosen.choice(candidates)
        change = mutated(site, schema, identifier, chosen)
        if change is not None:
            tried += 1
            other = repacked(model, identifier, {site: change[0]})
            changes = compared(base, other, "structure", "metadata")
            got = {one.path for _, one in changes.changes}
            if got != expected_paths(model, site, *change) or is_summarized(changes, base, other) != bool(got):
                wrong.append((site.path, got))
    assert wrong == []
    assert tried > 45


def is_summarized(found: ModelDifference, before: bytes, after: bytes) -> bool:
    """Return whether a difference is in any count of its summary."""
    with open_model(before) as old, open_model(after) as new:
        return summarize(found, old, new) != Summary((len(before), len(after)))


def expected_paths(model: Any, site: Site, value: Any, path: str) -> set[str]:
    """Return where the difference is to be reported: metadata by name, data behind the flatbuffer by content."""
    entries = [(f"metadata[{entry.name.decode()}]", entry.buffer) for entry in model.metadata or ()]
    named = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    of_metadata = {buffer: name for name, buffer in entries if buffer not in named}
    if ("_options_" in site.field.name and site.field.name.startswith("large")) or (
        site.type == "Buffer" and site.field.name in ("offset", "size")
    ):
        return set()  # a position up to 1 means that there is nothing
    if site.type == "Buffer" and (owner := of_metadata.get(int(path.split("[")[1].split("]", maxsplit=1)[0]))):
        return {owner}
    if (site.type, site.field.name) == ("Metadata", "name"):
        return {f"metadata[{site.owner.name.decode()}]", f"metadata[{value.decode()}]"}
    if (site.type, site.field.name) == ("Metadata", "buffer"):  # nothing names the old buffer now
        return {f"metadata[{site.owner.name.decode()}]", f"buffers[{site.owner.buffer}]"}
    if (site.type, site.field.name) == ("Tensor", "buffer"):
        return expected_of_buffer(model, site, value, path) | (
            {f"buffers[{value}]"} if value in of_metadata else set()
        )
    return {path}


def expected_of_buffer(model: Any, site: Site, value: Any, path: str) -> set[str]:
    """Return nothing where a tensor goes from a buffer without data to another."""
    if value >= len(model.buffers):
        return {path}
    ends = [model.buffers[at] for at in (site.owner.buffer, value)]
    return set() if all(one.data is None and one.offset < 2 for one in ends) else {path}


@pytest.mark.parametrize("identifier", FORMATS)
@pytest.mark.parametrize(
    ("union", "attribute", "field"),
    [
        ("BuiltinOptions", "builtinOptions", "builtin_options"),
        ("BuiltinOptions2", "builtinOptions2", "builtin_options_2"),
    ],
)
def test_each_field_of_all_options(identifier: bytes, union: str, attribute: str, field: str) -> None:
    """Give an operator for each options table of the schema that of the one before, its own, then other fields."""
    chosen, schema = seeded(7), schema_of(identifier)
    members = {code: member for code, member in schema.unions[union].items() if member != "NONE"}
    if identifier == b"CIR0":
        members = {code: member for code, member in members.items() if member not in schema_of(b"TFL3").tables}
    model = unpacked(row(*["NEG"] * len(members)).to_bytes(ENDINGS[identifier]))
    operators = model.subgraphs[0].operators

    def give(codes: Sequence[int]) -> bytes:
        for operator, code in zip(operators, codes, strict=True):
            setattr(operator, f"{attribute}Type", code)
            setattr(operator, attribute, generated(f"{members[code]}T", identifier)() if code else None)
        return packed(model, identifier)

    codes = list(members)
    last, base = give([0, *codes][: len(codes)]), give(codes)
    assert codes or (identifier, union) == (b"CIR0", "BuiltinOptions2")  # of which all are TFLite's
    got = [(one.path, one.after) for one in differences(last, base, "structure")]
    places = [f"subgraphs[0].operators[{at}].{field}" for at in range(len(codes))]
    assert got == [(place, {"type": members[code]}) for place, code in zip(places, codes, strict=True)]
    options = {id(getattr(operator, attribute)) for operator in operators}
    found = [site for site in sites(model, schema) if id(site.owner) in options]
    changes = {site: mutated(site, schema, identifier, chosen) or (None, "") for site in found}
    other = repacked(model, identifier, {site: value for site, (value, _) in changes.items()})
    assert {where for _, where in paths(base, other, "structure")} == {where for _, where in changes.values()}


def test_a_repacked_model_is_the_same(any_model: Path) -> None:
    """But for deprecated fields, which the published reader does not see, and what is behind the model."""
    data = any_model.read_bytes()
    again = packed(unpacked(data), data[4:8])
    if read(data) != read(again):
        pytest.skip("the object API loses something")
    left = [path for _, path in paths(data, again) if not path.endswith((".deprecated_tag", ".data_format"))]
    assert [path for path in left if "archive" not in path and path != "trailing_bytes"] == []


def test_a_compact_model_is_the_same(own_model: Path) -> None:
    with open_model(own_model) as model:
        small = b"".join(view(part) for part in compact_parts(model))
    found = compared(own_model.read_bytes(), small)
    assert (found.changes, found.identical, found.notes) == ((), False, ())


@pytest.mark.parametrize("name", ["circle/mlp", "circle/cnn"])
def test_data_behind_the_flatbuffer_is_the_same_data(name: str) -> None:
    assert paths(bytes_of(name), bytes_of(f"{name}_external")) == []
    other = bytearray(bytes_of(f"{name}_external"))
    other[-1] ^= 1
    assert [kind for kind, _ in paths(bytes_of(name), bytes(other))] == ["changed"]


def test_one_model_in_two_formats() -> None:
    found = paths(twice_listed("tflite"), twice_listed("circle"))
    assert found == [("changed", "version"), ("changed", "format")]


def test_different_models_differ(own_model: Path) -> None:
    """In some field that both formats have, by the published reader."""
    others = [path for path in own_models() if own_model.stem.removesuffix("_external") not in path.stem]
    other = seeded(len(own_model.name)).choice(others)
    assert read(own_model.read_bytes()) != read(other.read_bytes())
    assert paths(own_model.read_bytes(), other.read_bytes(), "structure") != []
