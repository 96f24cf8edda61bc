"""Whether a wrong split is seen; the commands."""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import suppress
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, InvalidInputError
from circletools.model.model import open_model
from circletools.origin.embed import embed
from circletools.origin.names import NameSource, collect_sources
from circletools.parts.compare import SplitFiles, check_files, open_split
from circletools.parts.split import MANIFEST, split
from tests.kit.command_support import run
from tests.kit.split_support import alternating, in_threes, split_file, split_to, with_devices
from tests.kit.support import bytes_of, packed, path_of, unpacked


def codes_after(folder: Path, change: object) -> set[str]:
    """Return the codes of findings after a change to the connections."""
    path = next(folder.glob("*.part.conn.json"))
    document = json.loads(path.read_bytes())
    change(document)  # type: ignore[operator]
    (folder / MANIFEST).unlink(missing_ok=True)
    path.write_text(json.dumps(document))
    return {finding.code for finding in check_files(open_split(folder))}


CHANGES = {
    "NOT_MADE_BEFORE": lambda document: document["parts"].reverse(),
    "NOT_MADE": lambda document: document["source"]["outputs"].append("nobody"),
    "MADE_TWICE": lambda document: document["parts"].append(document["parts"][0]),
    "ENDS_DIFFER": lambda document: document["parts"][-1]["outputs"].append("further"),
}


@pytest.mark.parametrize("code", sorted(CHANGES))
def test_connections_that_are_wrong_are_seen(code: str, annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    assert code in codes_after(tmp_path / "parts", CHANGES[code])


def swapped_part(folder: Path, index: int, change: object) -> list[str]:
    """Return the codes of findings after a change to a part, by the published object API."""
    files = open_split(folder)
    data = files.part(index).read_bytes()
    model = unpacked(data)
    change(model)  # type: ignore[operator]
    files.part(index).write_bytes(packed(model, data[4:8]))
    return [finding.code for finding in check_files(files)]


def test_parts_that_are_wrong_are_seen(annotated: Path, tmp_path: Path) -> None:
    def check_change(change: object, *codes: str) -> None:
        split_file(annotated, tmp_path / "parts", force=True)
        assert swapped_part(tmp_path / "parts", 1, change) == list(codes)

    def other_shape(model: object) -> None:
        graph = model.subgraphs[0]  # type: ignore[attr-defined]
        graph.tensors[graph.inputs[0]].shape = np.array([7, 7], np.int32)

    def twice(model: object) -> None:
        graph = model.subgraphs[0]  # type: ignore[attr-defined]
        graph.operators.append(graph.operators[0])
        graph.tensors.append(graph.tensors[graph.operators[0].outputs[0]])
        second = unpacked((tmp_path / "parts" / "net.part.00002_cpu.circle").read_bytes()).subgraphs[0].operators[0]
        second.outputs = np.array([len(graph.tensors) - 1], np.int32)
        graph.operators[-1] = second

    check_change(lambda _: None)
    check_change(other_shape, "FORM_DIFFERS")
    check_change(twice, "OPERATORS_DIFFER")


def located(files: SplitFiles) -> list[tuple[str, str, str]]:
    """Return severity, code and location of what is found."""
    return [(found.severity, found.code, found.location) for found in check_files(files)]


def test_the_operator_that_differs_is_named_and_not_those_after_it(tmp_path: Path) -> None:
    data = with_devices(bytes_of("circle/transformer_block"), in_threes)
    done = split_to(data, tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    with open_model(data) as model:
        codes = model.code_names(0)
    tried = 0
    for index, planned in list(enumerate(done.plan.parts))[::3]:
        before = files.part(index).read_bytes()
        model = unpacked(before)
        graph = model.subgraphs[0]
        made = {*graph.inputs, *(tensor for operator in graph.operators for tensor in operator.outputs)}
        for number, operator in enumerate(graph.operators):
            constant = next((tensor for tensor in operator.inputs if tensor >= 0 and tensor not in made), None)
            if constant is None:
                continue
            buffer = model.buffers[graph.tensors[constant].buffer]
            kept = buffer.data
            buffer.data = np.array(kept, np.uint8) ^ 1
            files.part(index).write_bytes(packed(model, b"CIR0"))
            buffer.data = kept
            place, source = f"parts[{index}].operators[{number}]", planned.operators[number]
            findings = [found for found in check_files(files) if found.code == "OPERATORS_DIFFER"]
            mine = next(found for found in findings if found.location == place)
            assert f"{codes[source]} of {files.connections.parts[index].file} is not in the original" in mine.message
            assert (findings[0].location, len(findings) % 2) == (place, 0)  # others may share the constant
            assert f"source.subgraphs[0].operators[{source}]" in {found.location for found in findings}
            assert len(findings) < 8
            tried += 1
        files.part(index).write_bytes(before)
    assert tried > 2


def test_contents_missing_from_a_part_are_detected(tmp_path: Path) -> None:
    with open_model(bytes_of("circle/cnn")) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model, NameSource.OUTPUT))
        edit.set_metadata("mine", b"mine")
        data = with_devices(edit.to_bytes(), alternating)
    split_to(data, tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    for names in (["mine"], ["ONE_op_table", "ONE_source_table"], ["CIRCLETOOLS_affinity"]):
        before = files.part(1).read_bytes()
        model = unpacked(before)
        model.metadata = [entry for entry in model.metadata if entry.name.decode() not in names]
        files.part(1).write_bytes(packed(model, b"CIR0"))
        assert located(files) == [("warning", "METADATA_MISSING", "parts[1].metadata")]
        (finding,) = check_files(files)
        assert ", ".join(names) in finding.message
        files.part(1).write_bytes(before)
    assert check_files(files) == []


def test_a_manifest_that_is_gone_or_wrong_is_seen(annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    files = open_split(tmp_path / "parts")
    manifest = tmp_path / "parts" / MANIFEST
    document = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(document))  # laid out otherwise
    assert check_files(files) == []
    for change, answer in (
        ({"pkg-outputs": ["0:0:9"]}, 'pkg-outputs[0] is "0:0:9"; according to the connections, it must be "1:0:0"'),
        ({"configs": ["x"]}, 'configs is ["x"]; according to the connections, it must be absent'),
    ):
        manifest.write_text(json.dumps({**document, **change}))
        (finding,) = check_files(files)
        assert (finding.code, finding.message) == ("MANIFEST_DIFFERS", answer)
    for words in ("", "[]", "[" * 100_000, '{"models": '):
        manifest.write_text(words)
        assert located(files) == [("error", "MANIFEST_DIFFERS", MANIFEST)]
    manifest.unlink()
    os.mkfifo(manifest)
    assert located(files) == [("error", "MANIFEST_DIFFERS", MANIFEST)]
    manifest.unlink()
    assert located(files) == [("warning", "MANIFEST_MISSING", MANIFEST)]
    ran = run("verify-split", tmp_path / "parts", "--on", "none")
    assert (ran.returncode, "warning MANIFEST_MISSING" in ran.stdout) == (1, True)


@pytest.mark.parametrize("name", ["circle/lstm_cell", "circle/input_as_output"])
def test_a_manifest_that_cannot_be_is_not_missed(name: str, tmp_path: Path) -> None:
    split_to(with_devices(bytes_of(name), in_threes), tmp_path / "parts", "circle")
    assert not (tmp_path / "parts" / MANIFEST).exists()
    assert check_files(open_split(tmp_path / "parts")) == []


def test_files_not_written_by_a_split_are_detected(annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    shutil.copy(annotated, tmp_path / "parts")  # where the source is looked for, too
    files = open_split(tmp_path / "parts")
    assert check_files(files) == []
    (tmp_path / "parts" / "extra.circle").write_bytes(b"junk")
    (tmp_path / "parts" / "more" / "below").mkdir(parents=True)
    (tmp_path / "parts" / "metadata" / "tc").touch()
    assert located(files) == [("warning", "STRAY_FILE", name) for name in ("extra.circle", "metadata/tc", "more")]


def test_a_part_in_the_place_of_another_is_seen(tmp_path: Path) -> None:
    split_to(with_devices(bytes_of("circle/cnn"), alternating), tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    pieces = range(len(files.connections.parts))
    contents = [files.part(index).read_bytes() for index in pieces]
    assert len(contents) > 3
    for one, two in [*permutations(pieces[:3], 2), (pieces[-1], 0)]:
        files.part(one).write_bytes(contents[two])
        findings = check_files(files)
        assert {(finding.code, finding.location.split(".")[0]) for finding in findings} == {
            ("ENDS_DIFFER", f"parts[{one}]")
        }
        files.part(one).write_bytes(contents[one])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"parts": [1]}', '{"source": {}, "parts": []}', "[" * 10000])
def test_connections_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.part.conn.json").write_text(text)
    with pytest.raises(InvalidInputError):
        open_split(tmp_path)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", "..", "ab" * 128])
def test_parts_are_only_read_from_the_directory(name: str, tmp_path: Path) -> None:
    piece = {"file": name, "inputs": [], "outputs": []}
    (tmp_path / "x.part.conn.json").write_text(json.dumps({"source": {**piece, "file": "x"}, "parts": [piece]}))
    with pytest.raises(InvalidInputError, match="is not the name of a file in this directory"):
        open_split(tmp_path)


def test_damaged_parts_give_findings_or_one_error(annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    files = open_split(tmp_path / "parts")
    data = files.part(1).read_bytes()
    generator = random.Random(0)  # noqa: S311 - no secret
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        files.part(1).write_bytes(damaged[: generator.choice((len(data), generator.randrange(len(data))))])
        with suppress(CircleToolsError):
            check_files(files)


def test_damaged_models_are_split_or_refused(annotated: Path, tmp_path: Path) -> None:
    data = annotated.read_bytes()
    generator = random.Random(1)  # noqa: S311 - no secret
    for number in range(100):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            with open_model(bytes(damaged)) as model:
                split(model, tmp_path / str(number))
        except CircleToolsError:
            assert not (tmp_path / str(number)).exists()


def test_from_annotation_to_a_verified_split(tmp_path: Path) -> None:
    source, target = path_of("circle/diamond"), tmp_path / "parts"
    steps = [
        ("embed-origins", source, tmp_path / "a.circle"),
        ("annotate-affinity", tmp_path / "a.circle", tmp_path / "b.circle", "--devices", "npu,cpu",
         "--set", "op:MUL=npu", "--default", "cpu"),
        ("fix-outputs", tmp_path / "b.circle", tmp_path / "c.circle", "--detach-taps"),
        ("split", tmp_path / "c.circle", target, "--json"),
        ("verify-split", target, "--json"),
    ]  # fmt: skip
    for step in steps:
        ran = run(*step)
        assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    (finding,) = found.pop("findings")
    assert found == {"file": str(target), "schema_version": 1, "verdict": "ok", "runtime": "onert"}
    assert (finding["code"], finding["severity"]) == ("PACKAGE_NOT_CALLED", "info")  # onert 0.1.0 crashes in `infer`
    (target / "c.part.00001_cpu.circle").unlink()
    assert run("verify-split", target).returncode == 3
    moved = tmp_path / "elsewhere" / "parts"
    moved.parent.mkdir()
    target.rename(moved)
    ran = run("verify-split", moved)
    assert ran.returncode == 2
    assert "give c.circle as --source" in ran.stderr


def test_statuses_of_split(tmp_path: Path) -> None:
    assert run("split", path_of("circle/mlp"), tmp_path / "parts").returncode == 4
    assert run("split", tmp_path / "nothing", tmp_path / "parts").returncode == 3
    assert run("verify-split", tmp_path).returncode == 3
    (tmp_path / "a.circle").write_bytes(with_devices(bytes_of("circle/mlp")))
    ran = run("split", tmp_path / "a.circle", tmp_path / "parts", "--subgraph", "1")
    assert (ran.returncode, ran.stderr) == (2, "error: subgraph 1 does not exist; the count is 1\n")
