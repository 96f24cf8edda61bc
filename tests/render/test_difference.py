"""Differences as text and JSON, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

import circletools as ct
from circletools.diff.difference import Change, ModelDifference, Section
from circletools.findings import Finding
from circletools.flatbuf.comparison import Difference
from circletools.render.difference import Labels, difference_json, difference_text
from tests.kit.profile_support import MLP
from tests.kit.support import bytes_of

TENSOR, OPERATOR = "subgraphs[0].tensors", "subgraphs[0].operators"
MOVED = Difference("moved", f"{OPERATOR}[2]", f"{OPERATOR}[1]", None, None)


def text_of(*changes: Difference, section: Section = "structure", full: bool = False) -> list[str]:
    """Return the lines without the heading, and without the sum at the end."""
    found = ModelDifference(tuple(Change(section, one) for one in changes), False, ())
    with ct.open(MLP) as model:
        lines = list(difference_text(found, model, model, full=full))
    assert (lines[0], lines[-2]) == (section, "")
    return [line.strip() for line in lines[1:-2]]


def changed(path: str, before: Any, after: Any, path_after: str = "") -> Difference:
    return Difference("changed", path, path_after or path, before, after)


@pytest.mark.parametrize(
    ("difference", "line"),
    [
        (MOVED, f"> {OPERATOR}[2] SOFTMAX __main__.Mlp::_softmax  -> {OPERATOR}[1]"),
        (Difference("added", f"{TENSOR}[4]", f"{TENSOR}[4]", None, {"name": "t", "shape": [1], "inner": {"a": ""}}),
         f'+ {TENSOR}[4] tico::x  name t, shape [1], inner {{a ""}}'),
        (Difference("removed", "metadata", "metadata", {}, None), "- metadata  (empty)"),
        (Difference("removed", "metadata", "metadata", True, 0), "- metadata  true"),
        (changed("operator_codes[1].version", 1, None), "~ operator_codes[1].version SOFTMAX  1 -> (absent)"),
        (changed(f"{OPERATOR}[0].opcode_index", 0, 2),
         f"~ {OPERATOR}[0].opcode_index FULLY_CONNECTED __main__.Mlp::relu  0 FULLY_CONNECTED -> 2"),
        (changed(f"{OPERATOR}[0].inputs[0]", 0, 4),
         f"~ {OPERATOR}[0].inputs[0] FULLY_CONNECTED __main__.Mlp::relu  0 tico::p_hidden_weight -> 4 tico::x"),
        (changed("subgraphs[0].outputs[0]", 8, -1), "~ subgraphs[0].outputs[0]  8 -> -1"),
        (changed(f"{TENSOR}[4].type", 0, 9), f"~ {TENSOR}[4].type tico::x  FLOAT32 -> INT8"),
        (changed(f"{TENSOR}[4].type", 0, 99), f"~ {TENSOR}[4].type tico::x  FLOAT32 -> 99"),
        (Difference("added", f"{TENSOR}[4]", f"{TENSOR}[4]", None, {"type": 2, "buffer": 2}),
         f"+ {TENSOR}[4] tico::x  type INT32, buffer 2"),
        (changed("subgraphs[1].inputs[0]", 0, 1), "~ subgraphs[1].inputs[0]  0 -> 1"),
        (changed("a[0].b", 1, 2, "a[1].b"), "~ a[0].b  1 -> 2  (now a[1].b)"),
        (changed("a[0].b", 1, 2, "a[0].c"), "~ a[0].b  1 -> 2"),
        (changed(f"{OPERATOR}[0].origin", ["b", "a"], ["c", "b", "d"]),
         f"~ {OPERATOR}[0].origin FULLY_CONNECTED __main__.Mlp::relu  +c +d -a"),
        (changed("x.origin", None, ["c"]), "~ x.origin  +c"),
        (changed("description", "a" * 100, "b" * 101), f"~ description  {'a' * 100} -> {'b' * 99}…"),
    ],
)  # fmt: skip
def test_a_line(difference: Difference, line: str) -> None:
    assert text_of(difference) == [line]


def test_long_values_in_full() -> None:
    assert text_of(changed("description", "a", "b" * 101), full=True) == [f"~ description  a -> {'b' * 101}"]


def test_equal_ones_are_counted() -> None:
    alike = [changed(f"a[{index}].b", index, None) for index in range(5)]
    assert text_of(*alike[:4]) == [f"~ a[{index}].b  {index} -> (absent)" for index in range(4)]
    assert text_of(*alike) == [
        *(f"~ a[{index}].b  {index} -> (absent)" for index in range(3)),
        "and 2 more of this kind (--full shows all)",
    ]
    assert len(text_of(*alike, full=True)) == 5
    assert len(text_of(*alike[:3], *(one._replace(kind="removed") for one in alike[:3]))) == 6


def test_long_paths_do_not_push_values_away() -> None:
    lines = text_of(changed("a" * 60, 1, 2), changed("b", 1, 2))
    assert lines == [f"~ {'a' * 60}  1 -> 2", f"{'~ b':48}  1 -> 2"]


def test_sections_and_the_sum() -> None:
    both = (Change("structure", MOVED), Change("file", changed("a", 1, 2)), Change("file", changed("b", 1, 2)))
    with ct.open(MLP) as model:
        lines = list(difference_text(ModelDifference(both, False, ()), model, model))
        assert [line for line in lines if not line.startswith(" ")] == [
            "structure", "", "file", "", "3 differences: 2 changed, 1 moved",
        ]  # fmt: skip
        assert list(difference_text(ModelDifference((), True, ()), model, model)) == ["no differences"]


def test_the_names_of_what_signatures_use() -> None:
    with ct.open(bytes_of("tflite/two_signatures")) as model:
        labels = Labels(model)
        assert labels.meant("signature_defs[1].inputs[0].tensor_index", 0) == "scores_x:0"
        assert labels.meant("subgraphs[0].outputs[0]", 4) == "PartitionedCall:0"
        assert labels.meant("subgraphs[0].outputs[0]", 5) == ""
        assert labels.meant("subgraphs[0].outputs[0]", "4") == ""
        assert (labels.of("subgraphs[1].tensors[3]"), labels.of("subgraphs[2].tensors[0]")) == (
            "PartitionedCall_1:0", "",
        )  # fmt: skip


def test_the_json_document() -> None:
    found = ModelDifference(
        (Change("structure", MOVED), Change("file", changed("a", 1, [2]))),
        False,
        (Finding("UNKNOWN_FIELD", "info", "", "why"),),
    )
    with ct.open(MLP) as model:
        side = {"file": "<bytes>", "format": "circle", "file_bytes": len(MLP)}
        assert difference_json(found, model, model) == {
            "schema_version": 1,
            "before": side,
            "after": side,
            "identical_bytes": False,
            "summary": {
                "file_bytes": (len(MLP), len(MLP)), "retyped": {}, "operands": {}, "changed": 0, "modules": (),
                "added": {}, "removed": {}, "tensors": {}, "others": {},
            },
            "changes": [
                {
                    "section": "structure", "kind": "moved", "path": f"{OPERATOR}[2]", "path_after": f"{OPERATOR}[1]",
                    "before": None, "after": None,
                },
                {"section": "file", "kind": "changed", "path": "a", "before": 1, "after": [2]},
            ],
            "notes": ["why"],
        }  # fmt: skip


def test_each_side_names_its_own() -> None:
    place = "subgraphs[0].tensors[0]"
    sides = [Difference("removed", place, place, 1, None), Difference("added", place, place, None, 1)]
    alike = [changed(f"a[{index}].b", index, None) for index in range(5)]
    found = ModelDifference(tuple(Change("structure", one) for one in (*sides, *alike)), False, ())
    with ct.open(MLP) as before, ct.open(bytes_of("tflite/two_signatures")) as after:
        lines = [line.split() for line in difference_text(found, before, after)]
    assert lines[3:5] == [["-", place, "tico::p_hidden_weight", "1"], ["+", place, "best_x:0", "1"]]
    assert lines[8][:3] == ["and", "2", "more"]  # unless all are asked for
