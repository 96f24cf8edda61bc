"""What is found when parts are run and when their files are not what they were: each finding with its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.model.model import open_model
from circletools.parts.compare import SplitFiles, check_files, open_split
from circletools.parts.split import MANIFEST
from circletools.parts.verify import compare_runs
from circletools.runtimes.protocol import Answer, Array
from circletools.runtimes.worker import Worker
from tests.kit.build import Build, row
from tests.kit.split_support import alternating, split_file, split_to, with_devices
from tests.kit.support import packed, unpacked

# --- runs ---------------------------------------------------------------------------------------------------


Outputs = Callable[..., list[int] | str]


class Program:
    """A replacement for a runtime: `outputs` gives what a file computes, or why it does not run."""

    def __init__(self, runtime: str, outputs: Mapping[str, Outputs]) -> None:
        self.runtime, self.outputs = runtime, outputs
        self.runs: list[tuple[str, list[int] | None, int]] = []

    def run(self, model: Path, seed: int = 0) -> Answer:
        return self._run(model, None, seed)

    def run_each(self, model: Path, inputs: list[list[Array]]) -> Answer:
        (only,) = inputs
        return self._run(model, [int(one) for one in only], 0)

    def excuse(self, _model: Path) -> str:
        return "; why"

    def _run(self, model: Path, given: list[int] | None, seed: int) -> Answer:
        name = model.name
        if name == "model.circle" and given is not None:
            with open_model(model) as found:
                marked = "CIRCLETOOLS_control" in [one.name for one in found.metadata]
            name = "again" if (model.parent / "parts").exists() else "with metadata" if marked else "compact"
        self.runs.append((name, given, seed))
        values = [10, 20] if given is None else given
        made = self.outputs[name](*values)
        if isinstance(made, str):
            return Answer([], [], made)
        return Answer([np.array(one) for one in values], [np.array(one) for one in made])


def crossed(folder: Path) -> SplitFiles:
    """Split a = x + y; b = a + x; c = -a into {a, c} and {b}; b and c come out."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    a = graph.compute("ADD", [x, y], "a")
    b = graph.compute("ADD", [a, x], "b")
    c = graph.compute("NEG", [a], "c")
    graph.ends([x, y], [b, c])
    split_to(with_devices(build.to_bytes("circle"), alternating), folder, "circle")
    return open_split(folder)


FIRST, SECOND = "model.part.00001_npu.circle", "model.part.00002_cpu.circle"
RIGHT: Mapping[str, Outputs] = {
    "model.circle": lambda x, y: [2 * x + y, -x - y],
    FIRST: lambda x, y: [-x - y, x + y],
    SECOND: lambda x, a: [x + a],
    "parts": lambda x, other, y: [x + other + y, -x - y],
}
WHOLE = ("model.circle", None, 5)
PARTS = [(FIRST, [10, 20], 0), (SECOND, [10, 30], 0)]
PACKAGE = ("parts", [10, 10, 20], 0)
ANEW = [("again", [10, 20], 0), ("compact", [10, 20], 0), ("with metadata", [10, 20], 0)]
SAME = dict.fromkeys(("again", "compact", "with metadata"), RIGHT["model.circle"])


def ran(files: SplitFiles, wrong: Mapping[str, Outputs], runtime: str = "onert") -> tuple[list[Finding], list[Any]]:
    """Return what is found, and what was run, where some files compute something else."""
    program = Program(runtime, {**RIGHT, **SAME, **wrong})
    return compare_runs(files, cast(Worker, program), seed=5), program.runs


def test_parts_get_what_those_before_them_made(tmp_path: Path) -> None:
    files = crossed(tmp_path / "parts")
    assert ran(files, {}) == ([], [WHOLE, *PARTS, PACKAGE])
    assert ran(files, {}, "litert") == ([], [WHOLE, *PARTS])
    (files.directory / MANIFEST).unlink()
    assert ran(files, {}) == ([], [WHOLE, *PARTS])


def test_what_does_not_run_is_reported(tmp_path: Path) -> None:
    files = crossed(tmp_path / "parts")

    def failing(*_: int) -> str:
        return "no kernel"

    message = "onert cannot run the whole model, so values were not compared: no kernel; why"
    not_run = Finding("SOURCE_NOT_RUN", "warning", str(files.source), message)
    assert ran(files, {"model.circle": failing}) == ([not_run], [WHOLE])
    message = "litert runs the whole model, but not this part: no kernel"
    assert ran(files, {FIRST: failing}, "litert") == (
        [Finding("PART_NOT_RUN", "error", FIRST, message)],
        [one for seed in range(5, 10) for one in (("model.circle", None, seed), PARTS[0])],
    )
    message = "onert runs the parts one by one, but not the package: no kernel"
    assert ran(files, {"parts": failing}) == (
        [Finding("PACKAGE_NOT_RUN", "warning", MANIFEST, message)],
        [WHOLE, *PARTS, PACKAGE],
    )


def test_a_part_that_fails_with_some_inputs_only_is_right(tmp_path: Path) -> None:
    answers = iter(("Invalid size", "Invalid size", [-30, 30]))
    found, runs = ran(crossed(tmp_path / "parts"), {FIRST: lambda *_: next(answers)}, "litert")
    assert (found, [run[2] for run in runs if run[0] == "model.circle"]) == ([], [5, 6, 7])


def test_other_values_are_reported_unless_the_source_written_again_has_others_too(tmp_path: Path) -> None:
    files = crossed(tmp_path / "parts")
    in_parts = Finding(
        "VALUES_DIFFER", "error", "parts", "output 0: 1 of 1 values differ when the parts run one by one in onert"
    )
    together = Finding(
        "VALUES_DIFFER", "error", MANIFEST, "output 1: 1 of 1 values differ when the package runs in onert"
    )
    wrong: dict[str, Outputs] = {SECOND: lambda x, a: [x - a], "parts": lambda x, other, y: [x + other + y, 0]}
    assert ran(files, wrong) == ([in_parts, together], [WHOLE, *PARTS, PACKAGE, *ANEW])
    # If the rewritten model fails, nothing is proven.
    for how in ("again", "compact"):
        assert ran(files, wrong | {how: lambda *_: "no"})[0] == [in_parts, together]
    for how in ("compact", "with metadata"):
        found, runs = ran(files, wrong | {how: lambda x, y: [0, -x - y]})
        words = "with metadata added" if how != "compact" else "as a compact file"
        message = (
            f"the values of the parts differ, but so do those of the unchanged model written {words} (output 0: 1 of "
            "1 values differ): the results of onert depend on the file's layout, not on the split"
        )
        assert found == [Finding("LAYOUT_CHANGES_VALUES", "info", str(files.source), message)]
        assert runs == [WHOLE, *PARTS, PACKAGE, *(ANEW[:2] if how == "compact" else ANEW)]
    # Other findings stay.
    found, _ = ran(files, {**wrong, "parts": lambda *_: "no", "compact": lambda x, y: [0, 0]})
    assert [one.code for one in found] == ["PACKAGE_NOT_RUN", "LAYOUT_CHANGES_VALUES"]


# --- files --------------------------------------------------------------------------------------------------


def chain(count: int, kind: str = "tflite", signature: Sequence[int] | None = None) -> bytes:
    """Return x -> t0 -> t1 ..., each of which is a part of its own; t0 may have an open shape."""
    build = row(*["NEG"] * count)
    build.model.subgraphs[0].tensors[1].shape_signature = signature
    return with_devices(build.to_bytes(kind), alternating)


def changed(files: SplitFiles, index: int, change: Callable[[Any], object]) -> list[tuple[str, str]]:
    """Return code and place of what is found after a change to a part."""
    before = files.part(index).read_bytes()
    model = unpacked(before)
    change(model)
    files.part(index).write_bytes(packed(model, before[4:8]))
    found = [(one.code, one.location) for one in check_files(files)]
    files.part(index).write_bytes(before)
    return found


def test_a_part_without_subgraphs_or_with_other_names(tmp_path: Path) -> None:
    split_to(chain(3), tmp_path / "parts", "tflite")
    files = open_split(tmp_path / "parts")
    assert changed(files, 1, lambda model: model.subgraphs.clear()) == [("ENDS_DIFFER", "parts[1]")]

    def rename(model: Any) -> None:
        model.subgraphs[0].tensors[model.subgraphs[0].outputs[0]].name = "other"

    assert changed(files, 1, rename) == [("ENDS_DIFFER", "parts[1].outputs")]


def test_a_form_that_differs_is_reported_where_it_is_read(tmp_path: Path) -> None:
    files = crossed(tmp_path / "parts")

    def reshape(slot: int) -> Callable[[Any], object]:
        def change(model: Any) -> None:
            graph = model.subgraphs[0]
            graph.tensors[graph.inputs[slot]].shape = np.array([4, 1], np.int32)

        return change

    for slot in (0, 1):
        assert changed(files, 1, reshape(slot)) == [("FORM_DIFFERS", f"parts[1].inputs[{slot}]")]
        assert changed(files, 0, reshape(slot))[0] == ("FORM_DIFFERS", f"parts[0].inputs[{slot}]")


@pytest.mark.parametrize(("count", "is_open"), [(1, False), (2, True), (3, True)])
def test_a_manifest_is_not_missed_where_a_shape_between_parts_is_open(
    count: int, is_open: bool, tmp_path: Path
) -> None:
    for number, signature in enumerate((None, [-1, 2])):
        folder = tmp_path / str(number) / "parts"
        folder.parent.mkdir()
        split_to(chain(count, "circle", signature), folder, "circle")
        (folder / MANIFEST).unlink(missing_ok=True)
        found = [one.code for one in check_files(open_split(folder))]
        assert found == ([] if signature and is_open else ["MANIFEST_MISSING"])


def test_without_an_affinity_in_any_part_no_manifest_is_missed(tmp_path: Path) -> None:
    """As circle-partitioner leaves them."""
    split_to(chain(2, "circle"), tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    (files.directory / MANIFEST).unlink()
    assert [one.code for one in check_files(files)] == ["MANIFEST_MISSING"]
    for path in (files.source, files.part(0), files.part(1)):
        with open_model(path) as model:
            edit = ModelEdit(model)
            for name in ("CIRCLETOOLS_affinity", "CIRCLETOOLS_affinity_stamp"):
                edit.remove_metadata(name)
            without = edit.to_bytes()
        path.write_bytes(without)
    assert check_files(files) == []


def test_missing_files_and_invalid_models_are_named(tmp_path: Path) -> None:
    split_to(chain(2), tmp_path / "parts", "tflite")
    files = open_split(tmp_path / "parts")
    files.part(1).unlink()
    with pytest.raises(InvalidInputError) as caught:
        check_files(files)
    assert str(files.part(1)) in str(caught.value)
    files.part(1).mkdir()
    with pytest.raises(InvalidInputError) as caught:
        check_files(files)
    assert (caught.value.message, caught.value.location) == ("not a regular file", str(files.part(1)))


# --- what --force replaces ----------------------------------------------------------------------------------


def test_only_what_a_split_wrote_is_replaced(tmp_path: Path) -> None:
    source, folder = tmp_path / "model.circle", tmp_path / "parts"
    source.write_bytes(chain(2, "circle"))
    done = split_file(source, folder)
    first = folder / done.connections.parts[0].file

    def link(path: Path) -> None:
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)

    def folder_instead(path: Path) -> None:
        path.unlink()
        path.mkdir()

    def file_instead(path: Path) -> None:
        (path / "MANIFEST").unlink()
        path.rmdir()
        path.touch()

    changes: list[tuple[Path, Callable[[Path], object]]] = [
        (first, link),
        (folder / "metadata", link),
        (first, folder_instead),
        (folder / "metadata", file_instead),
        (folder / "other", Path.touch),
        (folder / "metadata" / "other", Path.touch),
        (folder / "second.part.conn.json", Path.touch),
        (folder / "model.part.conn.json", Path.unlink),
        (folder / "model.part.conn.json", lambda path: path.write_text("{")),
    ]
    for place, change in changes:
        change(place)
        with pytest.raises(UsageError, match="the directory is not empty"):
            split_file(source, folder, force=True)
        shutil.rmtree(folder)
        split_file(source, folder)
    first.unlink()  # what is missing does not matter
    split_file(source, folder, force=True)
    assert check_files(open_split(folder)) == []


def test_the_source_is_not_replaced_with_the_directory_that_it_is_in(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    source = tmp_path / "model.circle"
    source.write_bytes(chain(2, "circle"))
    split_file(source, folder)
    part = folder / "model.part.00001_npu.circle"
    assert part.exists()
    with pytest.raises(UsageError, match="in the directory to replace") as caught:
        split_file(part, folder, force=True)
    assert caught.value.location == str(folder)
