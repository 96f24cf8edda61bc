"""Metadata entries that are written together, and the stamp of what an edit makes."""

from __future__ import annotations

from circletools.edit.edit import ModelEdit
from circletools.graph.build import model_graph
from circletools.metadata.entries import remove_entries, stamp_after, write_entries
from circletools.metadata.stamp import STAMP, check_stamp
from circletools.model.model import open_model
from tests.kit.build import Build


def made() -> bytes:
    """Return two subgraphs, the second of two operators, with one metadata entry."""
    build = Build()
    for name in ("main", "other"):
        graph = build.graph(name)
        x = graph.tensor(f"x_{name}")
        last = graph.compute("ABS", [x], f"a_{name}")
        if name == "other":
            last = graph.compute("NEG", [last], "b_other")
        graph.ends([x], [last])
    with open_model(build.to_bytes()) as model:
        edit = ModelEdit(model)
        edit.set_metadata("OLD", b"1234")
        return edit.to_bytes()


def test_only_what_differs_is_reported() -> None:
    with open_model(made()) as model:
        edit = ModelEdit(model)
        done = write_entries(edit, {"OLD": b"1234", "NEW": b"12", "NONE": None})
        assert done.changes == ("metadata NEW: 2 bytes",)
        edit = ModelEdit(model)
        assert write_entries(edit, {"OLD": b"1235"}).changes == ("metadata OLD: 4 bytes",)
        edit = ModelEdit(model)
        assert write_entries(edit, {"OLD": None}).changes == ("metadata OLD: removed",)
        with open_model(edit.to_bytes()) as after:
            assert after.metadata_value("OLD") is None


def test_old_files_are_removed() -> None:
    with open_model(made()) as model:
        assert remove_entries(ModelEdit(model), ["NONE", "OLD"]).changes == ("metadata OLD: removed",)


def test_the_stamp_of_renamed_outputs_is_fresh_after_the_edit() -> None:
    with open_model(made()) as model:
        edit = ModelEdit(model)
        edit.rename_tensor(1, 2, "c_other")
        edit.set_metadata(STAMP, stamp_after(edit))
        with open_model(edit.to_bytes()) as after:
            assert after.output_names(1) == [(b"a_other",), (b"c_other",)]
            assert check_stamp(model_graph(after)).state == "fresh"
