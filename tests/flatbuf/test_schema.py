"""The schemas: derived as committed, complete, and different where the two formats are."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pytest

from circletools.flatbuf.schema import Field, load_schema
from schema import generate
from tests.kit.presence import need
from tests.kit.support import ROOT

FORMATS = ("circle", "tflite")
START = re.compile(r"def (\w+)Start\(builder\):\n\s+builder\.StartObject\((\d+)\)")
Name = Literal["circle", "tflite", "debug_metadata"]


def committed(name: str) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads((ROOT / "schema" / f"{name}.json").read_text(encoding="utf-8")))


def modules(name: str) -> tuple[dict[str, Any], str]:
    """Return what the script asks: the generated modules by the class in them, and what they are from."""
    found: tuple[dict[str, Any], str] = generate.load_circle() if name == "circle" else generate.load_tflite()
    return found


def slots(name: str, table: str) -> dict[int, str]:
    return {field.slot: field.name for field in load_schema(cast(Name, name)).tables[table].fields}


# --- derived as committed -----------------------------------------------------------------------------------


def test_the_script_finds_nothing_to_change() -> None:
    need("circle_schema")
    command = [sys.executable, str(ROOT / "schema" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", FORMATS)
def test_check_names_the_stale_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in (*FORMATS, "roles"):
        shutil.copy(ROOT / "schema" / f"{each}.json", tmp_path)
    path = tmp_path / f"{name}.json"
    stale = path.read_text(encoding="utf-8").replace('"has_rank", "slot": 8', '"has_rank", "slot": 9')
    path.write_text(stale, encoding="utf-8")
    monkeypatch.setattr(generate, "HERE", tmp_path)
    monkeypatch.setattr(generate, "describe", lambda name, *_: committed(name))  # the slow part, tested above
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 1
    assert capsys.readouterr().err.startswith(f"{name}.json differs")
    assert path.read_text(encoding="utf-8") == stale
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert generate.main() == 0
    assert json.loads(path.read_text(encoding="utf-8")) == committed(name)


# --- complete -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FORMATS, "debug_metadata"])
def test_every_slot_of_every_table_is_one_field(name: str) -> None:
    for table, description in committed(name)["tables"].items():
        fields = description["fields"]
        taken = sorted(field["slot"] for field in fields)
        assert taken == list(range(description["slots"])), f"{table}: {taken}"
        names = [field["name"] for field in fields]
        assert len(set(names)) == len(names), table


@pytest.mark.parametrize("name", FORMATS)
def test_tables_have_as_many_slots_as_the_generated_code_starts_them_with(name: str) -> None:
    schema = load_schema(cast(Name, name))
    counted = {
        table: int(count)
        for file in {inspect.getfile(inspect.getmodule(module) or module) for module in modules(name)[0].values()}
        for table, count in START.findall(Path(file).read_text(encoding="utf-8"))
    }
    assert len(counted) > 130
    assert {table: found.slots for table, found in schema.tables.items()} == counted


@pytest.mark.parametrize("name", FORMATS)
def test_scalars_have_the_defaults_of_the_object_api(name: str) -> None:
    found, compared = modules(name)[0], 0
    for table, described in load_schema.__wrapped__(cast(Name, name)).tables.items():  # read again
        blank = vars(getattr(found[table], f"{table}T")())
        values = {re.sub("_", "", key).lower(): value for key, value in blank.items()}
        for field in described.fields:
            if field.kind == "scalar" and not field.deprecated:
                assert values[field.name.replace("_", "")] == field.default, f"{table}.{field.name}"
                compared += 1
    assert compared > 200


@pytest.mark.parametrize("name", [*FORMATS, "debug_metadata"])
def test_users_come_before_what_they_use(name: str) -> None:
    schema = load_schema(cast(Name, name))
    place = {table: index for index, table in enumerate(schema.order)}
    for table in schema.order:
        for field in schema.tables[table].fields:
            members = schema.unions[str(field.target)].values() if field.kind == "union" else [field.target]
            for member in members:
                if member is not None and member in schema.tables:
                    assert place[table] < place[member], f"{table}.{field.name}"
    assert schema.order[0] == schema.root


@pytest.mark.parametrize("name", FORMATS)
def test_only_fields_that_no_reader_can_reach_are_called_deprecated(name: str) -> None:
    found, schema = modules(name)[0], load_schema(cast(Name, name))
    deprecated = [(table, field) for table, it in schema.tables.items() for field in it.fields if field.deprecated]
    assert {(table, field.slot) for table, field in deprecated} == {
        ("SignatureDef", 3), ("ResizeBilinearOptions", 0), ("ResizeBilinearOptions", 1),
        *([("SubGraph", 5)] if name == "circle" else []),
    }  # fmt: skip
    for table, field in deprecated:
        source = inspect.getsource(getattr(found[table], table))
        assert f"Offset({4 + 2 * field.slot}))" not in source


@pytest.mark.parametrize("name", [*FORMATS, "debug_metadata"])
def test_only_unions_have_a_slot_for_their_code_and_only_numbers_a_default(name: str) -> None:
    schema = load_schema(cast(Name, name))
    for table, described in schema.tables.items():
        codes = {field.slot: field.type_slot for field in described.fields if field.kind == "union"}
        assert codes == {slot: slot - 1 for slot in codes}, table
        assert {field.type_slot for field in described.fields if field.kind != "union"} <= {-1}, table
        assert {field.default for field in described.fields if field.kind != "scalar"} <= {0}, table
    assert Field("f", 3, "scalar", np.dtype("u1")) == Field("f", 3, "scalar", np.dtype("u1"), 0, None, -1, False)


# --- where the two formats part -----------------------------------------------------------------------------


def test_identifiers() -> None:
    assert [load_schema(name).identifier for name in ("tflite", "circle")] == [b"TFL3", b"CIR0"]


@pytest.mark.parametrize(
    ("table", "slot", "tflite", "circle"),
    [
        ("SubGraph", 5, "debug_metadata_index", "data_format"),
        ("SubGraph", 6, None, "debug_metadata_index"),
        ("Tensor", 10, "external_buffer", "compression_type"),
        ("Model", 8, "external_buffer_groups", None),
        ("Model", 9, "external_buffers", None),
    ],
)
def test_slots_that_differ(table: str, slot: int, tflite: str | None, circle: str | None) -> None:
    assert (slots("tflite", table).get(slot), slots("circle", table).get(slot)) == (tflite, circle)


def test_all_other_slots_of_shared_tables_are_the_same() -> None:
    tflite, circle = load_schema("tflite").tables, load_schema("circle").tables
    different = {
        (table, slot)
        for table in tflite.keys() & circle.keys()
        for slot in slots("tflite", table).keys() | slots("circle", table).keys()
        if shape("tflite", table, slot) != shape("circle", table, slot)
    }
    assert different == {
        ("SubGraph", 5), ("SubGraph", 6), ("Tensor", 10), ("Model", 8), ("Model", 9),
        # Newer in TFLite:
        ("BlockwiseQuantization", 3), ("FullyConnectedOptions", 5),
    }  # fmt: skip


def shape(name: str, table: str, slot: int) -> list[tuple[Any, ...]]:
    fields = load_schema(cast(Name, name)).tables[table].fields
    return [(field.kind, field.dtype, field.default, field.target) for field in fields if field.slot == slot]


def test_union_codes_of_quantization_details() -> None:
    tflite, circle = (load_schema(name).unions["QuantizationDetails"] for name in ("tflite", "circle"))
    assert tflite == {1: "CustomQuantization", 2: "BlockwiseQuantization", 3: "MultiAxisQuantization"}
    assert circle == {1: "CustomQuantization", 2: "MXQuantization", 3: "BlockwiseQuantization"}


def test_tensor_types() -> None:
    tflite, circle = (load_schema(name).enums["TensorType"] for name in ("tflite", "circle"))
    assert {code: tflite[code] for code in tflite if code > 18}.keys() == {19, 20, 21, 22}
    assert tflite[20] == "UINT4"
    assert max(circle) == 18
    assert {code: name for code, name in circle.items() if code < 0} == {
        -1: "UINT4", -2: "GGML_Q4_0", -3: "GGML_Q4_1", -4: "GGML_Q8_0", -5: "GGML_Q8_1", -6: "MXFP4", -7: "MXINT8",
    }  # fmt: skip
    assert {code: circle[code] for code in circle if code >= 0} == {code: tflite[code] for code in range(19)}


OWN_CODES = {
    -2: ("INSTANCE_NORM", "InstanceNormOptions", 254),
    -3: ("BCQ_FULLY_CONNECTED", "BCQFullyConnectedOptions", 253),
    -4: ("BCQ_GATHER", "BCQGatherOptions", 252),
    -5: ("GRU", "GRUOptions", 251),
    -6: ("RMS_NORM", "RmsNormOptions", 250),
    -7: ("ROPE", "RoPEOptions", 249),
    -8: ("RUN_MODEL", "RunModelOptions", 248),
    -9: ("ATTENTION", "AttentionOptions", 247),
}


def test_codes_that_only_circle_has() -> None:
    codes, options = load_schema("circle").enums["BuiltinOperator"], load_schema("circle").unions["BuiltinOptions"]
    assert {code: name for code, name in codes.items() if code < 0} == {
        code: name for code, (name, _, _) in OWN_CODES.items()
    }
    assert {code: name for code, name in options.items() if code >= 200} == {
        code: name for _, name, code in OWN_CODES.values()
    }


def test_all_other_codes_are_the_same() -> None:
    tflite, circle = load_schema("tflite"), load_schema("circle")
    shared = {code: name for code, name in circle.enums["BuiltinOperator"].items() if code >= 0}
    assert shared == {code: tflite.enums["BuiltinOperator"][code] for code in shared}
    for union in ("BuiltinOptions", "BuiltinOptions2"):
        for code in circle.unions[union].keys() & tflite.unions[union].keys():
            assert circle.unions[union][code] == tflite.unions[union][code]


@pytest.mark.parametrize("name", FORMATS)
def test_absent_means_the_default_of_the_schema(name: str) -> None:
    tables = load_schema(cast(Name, name)).tables
    assert tables["OperatorCode"].by_name["version"].default == 1
    assert tables["Operator"].by_name["debug_metadata_index"].default == -1
    assert tables["SubGraph"].by_name["debug_metadata_index"].default == -1
    assert tables["Model"].by_name["version"].default == 0
