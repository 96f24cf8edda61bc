"""Nothing is lost: a model with every field that there is, through every edit, compared field by field.

The reader is `tests.kit.every_field.Reader`, on the published FlatBuffers run time; the published object API says
whether the model has everything.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from types import ModuleType
from typing import Any, Literal

import numpy as np
import pytest

from circletools.affinity.store import annotate
from circletools.affinity.tables import Affinity, SubgraphAffinity
from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import EditError
from circletools.flatbuf.schema import load_schema
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.embed import embed
from circletools.origin.names import collect_sources
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.fixing import fix_outputs
from circletools.storage.files import view
from tests.kit.every_field import UNKNOWN_TEXT, difference, every_field, reader
from tests.kit.support import edited, plain, published, unpacked

FORMATS = ("circle", "tflite")
Format = Literal["circle", "tflite"]


# --- the model has everything -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_of_every_table_is_there(name: Format) -> None:
    schema = load_schema(name)
    fields = {(table, item.name) for table in schema.order for item in schema.tables[table].fields}
    assert reader(every_field(name)).seen == fields
    assert set(schema.order) == schema.tables.keys()


def object_classes(name: Format) -> dict[str, Any]:
    """Return the classes of the published object API by name."""
    module = published(load_schema(name).identifier)
    modules = [module, *(item for item in vars(module).values() if isinstance(item, ModuleType))]
    found = {}
    for module in modules:
        for title, item in vars(module).items():
            if inspect.isclass(item) and hasattr(item, "InitFromPackedBuf"):
                found[title] = item
    return found


def set_attributes(value: Any, found: set[tuple[str, str]], blanks: Mapping[str, Any]) -> None:
    """Collect (class, attribute) of all that is not as a new object has it."""
    if isinstance(value, list):
        for item in value:
            set_attributes(item, found, blanks)
    elif isinstance(value, dict):
        blank = blanks[value[""]]
        found |= {(value[""], key) for key, item in value.items() if item != blank[key]}
        for item in value.values():
            set_attributes(item, found, blanks)


@pytest.mark.parametrize("name", FORMATS)
def test_the_published_object_api_finds_nothing_unset(name: Format) -> None:
    blanks = {title: plain(item()) for title, item in object_classes(name).items()}
    found: set[tuple[str, str]] = set()
    set_attributes(plain(unpacked(every_field(name))), found, blanks)
    wanted = {(title, key) for title, blank in blanks.items() for key in blank if key}
    assert wanted - found == set()
    assert len(wanted) > 280


# --- every edit ---------------------------------------------------------------------------------------------


def annotated(edit: ModelEdit) -> None:
    counts = [len(subgraph.operators) for subgraph in edit.model.subgraphs]
    parts = {index: SubgraphAffinity(*np.zeros((2, count), np.uint32)) for index, count in enumerate(counts)}
    annotate(edit, Affinity({0: "npu"}, parts))


@dataclass(frozen=True)
class Edit:
    """An edit, and all that it may change: new values, and which tables are appended.

    `{n}` stands for the number of operators in a subgraph. `rewrites` are the table types to be rewritten.
    """

    make: Callable[[ModelEdit], object]
    changed: Mapping[str, Any] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    rewrites: frozenset[str] = frozenset({"Model"})


IN_SUBGRAPH = frozenset({"Model", "SubGraph"})
IN_SIGNATURE = frozenset({"Model", "SignatureDef", "TensorMap"})
THREE_ENTRIES = ("metadata[3]", "metadata[4]", "metadata[5]", "buffers[4]", "buffers[5]", "buffers[6]")
EDITS: Mapping[str, Edit] = {
    "nothing": Edit(lambda edit: None),
    "set_metadata": Edit(lambda edit: edit.set_metadata("note", b"value"), added=("metadata[3]", "buffers[4]")),
    "add_buffer": Edit(lambda edit: edit.add_buffer(b"data"), added=("buffers[4]",)),
    "add_tensor": Edit(
        lambda edit: edit.add_tensor(1, "t", type="INT8", shape=[1]),
        added=("subgraphs[1].tensors[4]",), rewrites=IN_SUBGRAPH,
    ),
    "add_tensor_like": Edit(
        lambda edit: edit.add_tensor_like(1, 0, "t"),
        added=("subgraphs[1].tensors[4]",), rewrites=IN_SUBGRAPH | {"Tensor"},
    ),
    "add_operator_code": Edit(lambda edit: edit.add_operator_code("MUL"), added=("operator_codes[3]",)),
    "add_operator": Edit(
        lambda edit: edit.add_operator(2, 0, [0], [1]), added=("subgraphs[2].operators[{n}]",), rewrites=IN_SUBGRAPH
    ),
    "set_inputs": Edit(lambda edit: edit.set_inputs(0, [1]), {"subgraphs[0].inputs": [1]}, rewrites=IN_SUBGRAPH),
    "set_outputs": Edit(lambda edit: edit.set_outputs(0, [1]), {"subgraphs[0].outputs": [1]}, rewrites=IN_SUBGRAPH),
    "set_signature_entry": Edit(
        lambda edit: edit.set_signature_entry(2, "outputs", 1, 0),
        {"signature_defs[2].outputs[1].tensor_index": 0}, rewrites=IN_SIGNATURE,
    ),
    "embed": Edit(
        lambda edit: embed(edit, collect_sources(edit.model)), added=(*THREE_ENTRIES, "metadata[6]", "buffers[7]")
    ),
    "annotate": Edit(annotated, added=THREE_ENTRIES),
    "fix_outputs": Edit(
        lambda edit: fix_outputs(edit, choose_subgraphs(model_graph(edit.model), "1")),
        {
            "subgraphs[1].outputs": [4, 6],
            **{
                f"signature_defs[{signature}].outputs[{entry}].tensor_index": tensor
                for signature in range(3)
                for entry, tensor in enumerate((4, 6, 6))
            },
        },
        (
            "buffers[4]", "operator_codes[3]", "subgraphs[1].operators[{n}]", "subgraphs[1].operators[{n+1}]",
            *(f"subgraphs[1].tensors[{index}]" for index in (4, 5, 6)),
        ),
        IN_SUBGRAPH | IN_SIGNATURE | {"Tensor"},
    ),
}  # fmt: skip


def expected(name: Format, edit: Edit) -> tuple[dict[str, Any], set[str]]:
    """Return all values that an edit changes, the counts of vectors too, and the paths that it adds."""
    before = reader(every_field(name)).values
    operators = before["subgraphs[0].operators"]
    added = {path.replace("{n}", str(operators)).replace("{n+1}", str(operators + 1)) for path in edit.added}
    counts = Counter(path.rpartition("[")[0] for path in added)
    return {**edit.changed, **{path: before[path] + more for path, more in counts.items()}}, added


@pytest.mark.parametrize(("edit", "name"), list(zip(EDITS, cycle(FORMATS))))
def test_an_edit_changes_what_it_names_and_compacting_afterwards_no_field(name: Format, edit: str) -> None:
    data = every_field(name)
    after = edited(data, EDITS[edit].make)
    changed, added = expected(name, EDITS[edit])
    differing = difference(data, after)
    assert {path: new for path, (old, new) in differing.items() if old is not None} == changed
    new = {path for path, (old, _) in differing.items() if old is None}
    assert {re.match(r".*?\[\d+\](\.\w+\[\d+\])?", path)[0] for path in new} == added  # type: ignore[index]
    assert after.endswith(data)
    assert edited(after) == after
    with open_model(after) as model:
        compacted = b"".join(map(view, compact_parts(model)))
    assert difference(after, compacted) == {}


@pytest.mark.parametrize("name", FORMATS)
def test_removing_an_entry_moves_up_the_next_ones_and_no_other_field(name: Format) -> None:
    data = every_field(name)
    with open_model(data) as model:
        names = [entry.name.encode() for entry in model.metadata]
    after = edited(data, lambda edit: edit.remove_metadata(names[0].decode()))
    assert difference(data, after) == {
        "metadata": (3, 2),
        "metadata[0].name": (names[0], names[1]),
        "metadata[1].name": (names[1], names[2]),
        "metadata[2]": ("Metadata", None),
        "metadata[2].buffer": (1, None),
        "metadata[2].name": (names[2], None),
    }


# --- fields that the schema does not know -------------------------------------------------------------------


@pytest.mark.parametrize(("edit", "name"), list(zip(EDITS, cycle(FORMATS))))
def test_a_field_that_no_schema_has_is_carried_in_every_table_that_stays_as_it_is(name: Format, edit: str) -> None:
    # External data moves, so the tables that hold its place are rewritten when anything is.
    others = frozenset(load_schema(name).order) - EDITS[edit].rewrites - {"Buffer", "Operator", "SubGraph"}
    data = every_field(name, others)
    after = edited(data, EDITS[edit].make)
    changed, _ = expected(name, EDITS[edit])
    differing = difference(data, after)
    assert {path: new for path, (old, new) in differing.items() if old is not None} == changed
    found = reader(after).values
    carried = [path.rpartition(".")[0] or "model" for path, value in found.items() if value == UNKNOWN_TEXT]
    assert {found[path] for path in carried} == others


@pytest.mark.parametrize(("edit", "name"), list(zip(EDITS, cycle(FORMATS))))
def test_an_edit_is_refused_when_it_would_lose_such_a_field(name: Format, edit: str) -> None:
    for table in EDITS[edit].rewrites:
        with pytest.raises(EditError, match=f"^{table} at byte .* has a field that the {name} schema does not know"):
            edited(every_field(name, frozenset({table})), EDITS[edit].make)


@pytest.mark.parametrize("name", FORMATS)
def test_compacting_is_refused_for_such_a_field_in_any_table(name: Format) -> None:
    order = load_schema(name).order
    for table in {*order[:12], *order[12::12]}:  # some of the many options
        with (
            open_model(every_field(name, frozenset({table}))) as model,
            pytest.raises(EditError, match=rf"{table} at byte .* has a field"),
        ):
            compact_parts(model)
