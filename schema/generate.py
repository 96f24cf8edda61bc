"""Derive circle.json and tflite.json from the published generated FlatBuffers modules, and check roles.json.

    python schema/generate.py [--check]

The generated modules are called, not parsed: every `<Table>Add<Field>` function with a builder that records the slot,
the scalar kind and the default, and every field accessor on a table that records which kind of value is read (a
scalar, a string, a table, a union, a vector of any of these). Union members come from the type comments of the object
API, the only place where the generated code names them.

roles.json is written by hand: it lists what each integer of the two schemas refers to, or that it is a plain number.
The script fails for an integer field that is missing there, so a new version of a schema forces a decision, and for
an entry that no schema has.

Needs the packages `circle-schema` (0.10) and `ai-edge-litert` (2.3). With --check nothing is written; the exit status
is 1 if a committed file differs from what would be written, or roles.json from the schemas.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import inspect
import json
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent

# Deprecated fields get no accessor and no Add function, but real files have them and a rewrite must keep them. Their
# kinds are in the published .fbs files (a DataFormat is a byte).
DEPRECATED: dict[tuple[str, str, int], dict[str, Any]] = {
    ("tflite", "SignatureDef", 3): {"name": "deprecated_tag", "kind": "string"},
    ("circle", "SignatureDef", 3): {"name": "deprecated_tag", "kind": "string"},
    ("circle", "SubGraph", 5): {"name": "data_format", "kind": "int8", "default": 0},
    **{
        (format_name, "ResizeBilinearOptions", slot): {"name": name, "kind": "int32", "default": 0}
        for format_name in ("circle", "tflite")
        for slot, name in ((0, "new_height"), (1, "new_width"))
    },
}


INTEGERS = {"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}


class RecordingBuilder:
    """A substitute for flatbuffers.Builder that records the one call made on it."""

    def __getattr__(self, method: str) -> Any:
        """Return a function that records `method` and its arguments."""

        def record(*arguments: Any) -> None:
            self.call = (method, arguments)

        return record


class RecordingTable:
    """A substitute for flatbuffers.table.Table: every field is present, and reading one is recorded."""

    Bytes = bytearray(8)
    Pos = 0

    def __init__(self) -> None:
        self.vector: bool = False
        self.read = ""

    def Offset(self, _vtable_offset: int) -> int:  # noqa: N802
        return 4

    def Vector(self, _offset: int) -> int:  # noqa: N802
        self.vector = True
        return 0

    def Get(self, flags: Any, _position: int) -> int:  # noqa: N802
        self.read = flags.__name__.removesuffix("Flags").lower()
        return 0

    def String(self, _offset: int) -> bytes:  # noqa: N802
        self.read = "string"
        return b""

    def Union(self, _table: Any, _offset: int) -> None:  # noqa: N802
        self.read = "union"

    def Indirect(self, _position: int) -> int:  # noqa: N802
        self.read = "table"
        return 0


def snake_case(camel: str) -> str:
    """Return the schema's spelling of a generated name: BuiltinOptions2Type -> builtin_options_2_type."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", camel).lower()
    return words.replace("options2", "options_2")


def load_circle() -> tuple[dict[str, ModuleType], str]:
    """Return the module of each class by name, for circle-schema 0.10."""
    package = importlib.import_module("circle_schema.v0_10.circle")
    names = [entry.name for entry in pkgutil.iter_modules(package.__path__)]
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    return modules, f"circle-schema {importlib.metadata.version('circle-schema')}, v0_10"


def load_tflite() -> tuple[dict[str, ModuleType], str]:
    """Return the module of each class by name, for the schema inside ai-edge-litert."""
    module = importlib.import_module("ai_edge_litert.schema_py_generated")
    modules = {name: module for name, _ in inspect.getmembers(module, inspect.isclass)}
    return modules, f"ai-edge-litert {importlib.metadata.version('ai-edge-litert')}"


def is_table(module: ModuleType, name: str) -> bool:
    """Return whether `name` is a table (its class reads from a buffer)."""
    return hasattr(getattr(module, name), "GetRootAs")


def enum_values(module: ModuleType, name: str) -> dict[str, int] | None:
    """Return the members of an enum class by ascending value, or None for another kind of class."""
    members = {k: v for k, v in vars(getattr(module, name)).items() if not k.startswith("_")}
    if not members or not all(isinstance(value, int) for value in members.values()):
        return None
    return dict(sorted(members.items(), key=lambda item: item[1]))


def describe_field(module: ModuleType, table: str, camel: str, unions: dict[frozenset[str], str]) -> dict[str, Any]:
    """Describe one field: name, slot, kind, and the details of the kind (element, type, union, default)."""
    builder = RecordingBuilder()
    getattr(module, f"{table}Add{camel}")(builder, 0)
    method, (slot, _, default) = builder.call
    field: dict[str, Any] = {"name": snake_case(camel), "slot": slot}
    scalar = method.removeprefix("Prepend").removesuffix("Slot").lower()
    if scalar != "uoffsettrelative":
        return field | {"kind": scalar, "default": default}
    reader = getattr(module, table)()
    reader._tab = tab = RecordingTable()
    accessor = getattr(reader, camel)
    value = accessor(0) if inspect.signature(accessor).parameters else accessor()
    target = type(value).__name__ if tab.read == "table" else tab.read
    if tab.read == "union":
        return field | {
            "kind": "union",
            "union": union_of(module, table, camel, unions),
            "type_slot": slot - 1,
        }
    if tab.vector:
        return field | {"kind": "vector", "element": target}
    return field | ({"kind": "table", "type": target} if tab.read == "table" else {"kind": target})


def union_of(module: ModuleType, table: str, camel: str, unions: dict[frozenset[str], str]) -> str:
    """Return the name of the union whose members are listed in the field's type comment."""
    attribute = camel[0].lower() + camel[1:]
    source = inspect.getsource(getattr(module, f"{table}T"))
    comment = re.search(rf"self\.{attribute} = .*# type: Union\[None, (.*)\]", source)
    if comment is None:
        raise SystemExit(f"{table}.{camel}: no type comment that lists the union's members")
    members = [part.strip(" '").rsplit(".")[-1].removesuffix("T") for part in comment[1].split(",")]
    return unions[frozenset(members)]


def describe(format_name: str, modules: dict[str, ModuleType], source: str) -> dict[str, Any]:
    """Return the whole schema as plain data, sorted so that the file is stable."""
    tables = sorted(name for name, module in modules.items() if is_table(module, name))
    enums = {
        name: values
        for name in sorted(set(modules) - set(tables))
        if (values := enum_values(modules[name], name)) is not None
    }
    unions = {
        name: {k: v for k, v in values.items() if k != "NONE"}
        for name, values in enums.items()
        if set(values) - {"NONE"} <= set(tables)
    }
    by_members = {frozenset(members): name for name, members in unions.items()}
    described = {}
    for table in tables:
        module = modules[table]
        builder = RecordingBuilder()
        getattr(module, f"{table}Start")(builder)
        slots = builder.call[1][0]
        cls = getattr(module, table)
        prefix = f"{table}Add"
        fields = [
            describe_field(module, table, name.removeprefix(prefix), by_members)
            for name in vars(module)
            if name.startswith(prefix) and hasattr(cls, name.removeprefix(prefix))
        ]
        for (owner_format, owner, slot), deprecated in DEPRECATED.items():
            if (owner_format, owner) == (format_name, table):
                fields.append({**deprecated, "slot": slot, "deprecated": True})
        described[table] = {"slots": slots, "fields": sorted(fields, key=lambda field: field["slot"])}
    root = modules["Model"]
    return {
        "format": format_name,
        "source": source,
        "file_identifier": identifier_of(root),
        "root": "Model",
        "enums": {name: values for name, values in enums.items() if name not in unions},
        "unions": unions,
        "tables": described,
    }


def identifier_of(module: ModuleType) -> str:
    """Return the four characters that `ModelBufferHasIdentifier` looks for."""
    for candidate in ("TFL3", "CIR0"):
        if module.Model.ModelBufferHasIdentifier(b"\0\0\0\0" + candidate.encode(), 0):
            return candidate
    raise SystemExit("Model has none of the known file identifiers")


def render(schema: dict[str, Any]) -> str:
    """Return the schema as JSON with one field, union or enum member per line."""
    text = json.dumps(schema, indent=1)
    return (
        re.sub(
            r"\{\n\s+(\"(?:name|slot)\"[^{}\[\]]*?)\n\s+\}",
            lambda match: "{" + re.sub(r",\n\s+", ", ", match[1]) + "}",
            text,
        )
        + "\n"
    )


def integer_fields(schema: dict[str, Any]) -> set[str]:
    """Return `Table.field` of all integers and vectors of integers, without the codes that belong to unions."""
    found = set()
    for table, description in schema["tables"].items():
        codes = {field["type_slot"] for field in description["fields"] if field["kind"] == "union"}
        found |= {
            f"{table}.{field['name']}"
            for field in description["fields"]
            if field.get("element", field["kind"]) in INTEGERS and field["slot"] not in codes
        }
    return found


def problems_of_roles(roles: dict[str, Any], schemas: list[dict[str, Any]]) -> list[str]:
    """Return the fields that roles.json lacks, lists twice, or lists although no schema has them."""
    listed = [field for role in roles["roles"].values() for field in role["fields"]]
    listed += [f"{table}.{field}" for table, fields in roles["numbers"].items() for field in fields]
    known = set().union(*map(integer_fields, schemas))
    return [
        *(f"{field} is neither in `roles` nor in `numbers`" for field in sorted(known.difference(listed))),
        *(f"{field} is in no schema, or no integer" for field in sorted(set(listed) - known)),
        *(f"{field} is listed twice" for field in sorted({field for field in listed if listed.count(field) > 1})),
    ]


def main() -> int:
    """Write both files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if a file differs")
    check = parser.parse_args().check
    stale, schemas = [], []
    for format_name, load in (("circle", load_circle), ("tflite", load_tflite)):
        path = HERE / f"{format_name}.json"
        schemas.append(describe(format_name, *load()))
        text = render(schemas[-1])
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    for name in stale:
        sys.stderr.write(f"{name} differs from what the installed packages give\n")
    problems = problems_of_roles(json.loads((HERE / "roles.json").read_text(encoding="utf-8")), schemas)
    for problem in problems:
        sys.stderr.write(f"roles.json: {problem}\n")
    return 1 if stale or problems else 0


if __name__ == "__main__":
    sys.exit(main())
