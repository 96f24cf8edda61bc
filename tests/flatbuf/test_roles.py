"""What integers point at: every field has a role, no entry is unused, and the loader agrees with the file."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from circletools.flatbuf.schema import Role, fields_with_role, keys_with_role, load_roles, load_schema, types_below
from circletools.model.external import FILE_OFFSETS
from schema import generate
from tests.kit.support import ROOT

FORMATS = ("circle", "tflite")


def document(name: str) -> Any:
    return json.loads((ROOT / "schema" / f"{name}.json").read_text(encoding="utf-8"))


def problems(change: Any = None) -> list[str]:
    """Return what is wrong with the roles once `change` was made to roles and schemas."""
    roles, schemas = document("roles"), [document(name) for name in FORMATS]
    if change is not None:
        change(roles, schemas)
    found: list[str] = generate.problems_of_roles(roles, schemas)
    return found


def test_every_integer_field_is_decided() -> None:
    assert problems() == []


@pytest.mark.parametrize("place", [0, 1], ids=FORMATS)
@pytest.mark.parametrize("kind", [{"kind": "int32", "default": 0}, {"kind": "vector", "element": "uint8"}])
def test_a_new_integer_field_forces_a_decision(place: int, kind: dict[str, Any]) -> None:
    def grow(_roles: Any, schemas: Any) -> None:
        table = schemas[place]["tables"]["AddOptions"]
        table["fields"].append({"name": "partner", "slot": table["slots"], **kind})

    assert problems(grow) == ["AddOptions.partner is neither in `roles` nor in `numbers`"]


def test_a_new_table_forces_decisions() -> None:
    def grow(_roles: Any, schemas: Any) -> None:
        schemas[1]["tables"]["NewOptions"] = copy.deepcopy(schemas[1]["tables"]["IfOptions"])

    assert problems(grow) == [
        f"NewOptions.{side}_subgraph_index is neither in `roles` nor in `numbers`" for side in ("else", "then")
    ]


def test_other_new_fields_force_none() -> None:
    def grow(_roles: Any, schemas: Any) -> None:
        fields = schemas[0]["tables"]["AddOptions"]["fields"]
        fields.append({"name": "title", "slot": 2, "kind": "string"})
        fields.append({"name": "factor", "slot": 3, "kind": "float32", "default": 0})
        fields.append({"name": "parts", "slot": 4, "kind": "vector", "element": "Tensor"})

    assert problems(grow) == []


def test_an_entry_that_no_schema_has_is_reported() -> None:
    def rename(roles: Any, _schemas: Any) -> None:
        roles["numbers"]["AddOptions"].append("gone")
        roles["roles"]["tensor"]["fields"]["AddOptions.left"] = {"none": []}

    shown = [f"AddOptions.{name} is in no schema, or no integer" for name in ("gone", "left")]
    assert problems(rename) == shown


def test_an_entry_that_occurs_twice_is_reported() -> None:
    def double(roles: Any, _schemas: Any) -> None:
        roles["numbers"]["IfOptions"] = ["then_subgraph_index"]

    assert problems(double) == ["IfOptions.then_subgraph_index is listed twice"]


def test_the_loader_has_every_role() -> None:
    load_roles.cache_clear()
    listed = {
        (kind, *field.split("."), tuple(entry["none"]))
        for kind, role in document("roles")["roles"].items()
        for field, entry in role["fields"].items()
    }
    assert {(role.kind, *key, role.none) for key, role in load_roles().items()} == listed
    assert load_roles()["BlockwiseQuantization", "scales"] == Role("tensor", ())
    assert load_roles()["Operator", "inputs"] == Role("tensor", (-1,))
    assert load_roles()["Tensor", "buffer"] == Role("buffer", (0,))
    assert {f"{table}.{field}" for (table, field), role in load_roles().items() if role.pattern} == {
        "StableHLOCompositeOptions.decomposition_subgraph_index",
        "StablehloCustomCallOptions.called_computations",
        "StablehloReduceOptions.body_subgraph_index",
        "StablehloReduceWindowOptions.body_subgraph_index",
        "StablehloScatterOptions.update_computation_subgraph_index",
        "StablehloSortOptions.comparator_subgraph_index",
    }


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_that_is_called_an_index_is_a_plain_number(name: Any) -> None:
    """A second look that does not lean on the list: by the fields' names."""
    named = {
        (table, item.name)
        for table, found in load_schema(name).tables.items()
        for item in found.fields
        if item.target is None and ("subgraph" in item.name or item.name.endswith(("tensor_index", "opcode_index")))
    }
    assert len(named) > 15
    assert named <= load_roles().keys()


@pytest.mark.parametrize("name", FORMATS)
def test_fields_and_tables_are_found_by_role(name: Any) -> None:
    schema = load_schema(name)
    names = [item.name for item in fields_with_role(schema.tables["IfOptions"], "subgraph")]
    assert names == ["then_subgraph_index", "else_subgraph_index"]
    assert fields_with_role(schema.tables["IfOptions"], "tensor", "buffer") == ()
    assert [item.name for item in fields_with_role(schema.tables["Operator"], "tensor", "operator_code")] == [
        "opcode_index", "inputs", "outputs", "intermediates"
    ]  # fmt: skip
    below = types_below(schema, frozenset(["tensor"]))
    blocks = {"BlockwiseQuantization", *(["MultiAxisQuantization"] if name == "tflite" else [])}
    assert below["Tensor"] == below["QuantizationParameters"] == blocks
    assert below["SubGraph"] == {"SubGraph", "Operator", *blocks}
    assert below["Model"] == {"SubGraph", "Operator", "TensorMap", *blocks}
    assert below["Buffer"] == below["OperatorCode"] == below["IfOptions"] == frozenset()
    assert types_below(schema, frozenset(["operator_code"]))["Model"] == {"Operator"}
    assert below.keys() == set(schema.order)


def test_positions_in_the_file_are_those_that_an_edit_moves() -> None:
    assert keys_with_role("file_offset") == FILE_OFFSETS.keys()
