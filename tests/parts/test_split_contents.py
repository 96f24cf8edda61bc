"""What goes into the parts outside operators."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from circletools.affinity.tables import check_freshness as check_affinity
from circletools.affinity.tables import read_affinity
from circletools.check import check
from circletools.edit.edit import ModelEdit
from circletools.graph.build import model_graph
from circletools.metadata.stamp import STAMP, check_stamp
from circletools.model.model import open_model
from circletools.model.verify import is_dangling
from circletools.origin.embed import embed
from circletools.origin.names import NameSource, collect_sources
from circletools.origin.read import read_origins
from circletools.parts.compare import check_files, open_split
from tests.kit.split_support import alternating, split_file, split_to, with_devices
from tests.kit.support import bytes_of, edited, field_at, locate, put


def test_origins_and_affinity_go_along(tmp_path: Path) -> None:
    data = bytes_of("circle/transformer_block")
    with open_model(data) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model, NameSource.OUTPUT))
        whole = with_devices(edit.to_bytes(), alternating)
    done = split_to(whole, tmp_path / "parts", "circle")
    assert len(done.plan.parts) > 20
    with open_model(whole) as model:
        expected = read_origins(model)
    assert expected is not None
    for planned, piece in zip(done.plan.parts, done.connections.parts, strict=True):
        with open_model(tmp_path / "parts" / piece.file) as part:
            origins, affinity = read_origins(part), read_affinity(part)
            assert origins is not None
            assert affinity is not None
            assert check_stamp(model_graph(part)).state == check_affinity(part, affinity).state == "fresh"
            assert affinity.subgraphs[0].devices.tolist() == [planned.device_id] * len(planned.operators)
            assert affinity.devices[planned.device_id] == planned.device
            for index, operator in enumerate(planned.operators):
                assert origins.of(0, index) == expected.of(0, operator)
            used = {source for operator in planned.operators for source in expected.of(0, operator)}
            assert origins.sources == {source: expected.sources[source] for source in used}


def test_stale_origins_stay_behind(tmp_path: Path) -> None:
    data = bytes_of("circle/diamond")
    with open_model(data) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model, NameSource.OUTPUT))
        edit.set_metadata(STAMP, bytes.fromhex("01000000 01000000 06000000") + bytes(14))
        data = edit.to_bytes()
    done = split_to(with_devices(data, alternating), tmp_path / "parts", "circle")
    assert [note.code for note in done.notes] == ["STALE_ORIGIN"]
    for piece in done.connections.parts:
        with open_model(tmp_path / "parts" / piece.file) as part:
            assert read_origins(part) is None


def test_metadata_is_kept_unless_it_describes_the_whole(tmp_path: Path) -> None:
    def note(edit: object) -> None:
        for name in ("note", "TFLITE_METADATA", "ONE_execution_plan_table"):
            edit.set_metadata(name, name.encode() * 3)  # type: ignore[attr-defined]

    done = split_to(with_devices(edited(bytes_of("tflite/cnn"), note), alternating), tmp_path / "parts", "tflite")
    assert [note.code for note in done.notes].count("METADATA_LEFT_OUT") == 2
    for piece in done.connections.parts:
        with open_model(tmp_path / "parts" / piece.file) as part:
            assert bytes(part.metadata_value("note") or b"") == b"notenotenote"
            assert part.metadata_value("TFLITE_METADATA") is None
            assert part.metadata_value("ONE_execution_plan_table") is None


def test_a_signature_is_kept_in_the_part_with_all_its_ends(tmp_path: Path) -> None:
    whole = with_devices(bytes_of("tflite/two_signatures"), lambda _subgraph, _operator: 0)
    done = split_to(whole, tmp_path / "parts", "tflite")
    with open_model(tmp_path / "parts" / done.connections.parts[0].file) as part, open_model(whole) as model:
        (kept,) = part.signatures
        (ours, theirs) = model.signatures
        assert kept.key == ours.key
        names = part.subgraphs[0].tensors
        assert [(name, names[tensor].name) for name, tensor in kept.inputs] == [
            (name, model.subgraphs[0].tensors[tensor].name) for name, tensor in ours.inputs
        ]
    assert any(theirs.key in note.message for note in done.notes)
    other = split_to(whole, tmp_path / "other", "tflite", subgraph=theirs.subgraph)
    with open_model(tmp_path / "other" / other.connections.parts[0].file) as part:
        assert [signature.key for signature in part.signatures] == [theirs.key]
    assert check_files(open_split(tmp_path / "other"), theirs.subgraph) == []


def test_data_outside_stays_outside_and_aligned(tmp_path: Path) -> None:
    for name in ("circle/cnn_external", "tflite/cnn_external", "tflite/custom_options_external"):
        kind, folder = name.split("/")[0], tmp_path / name / "parts"
        folder.parent.mkdir(parents=True)
        done = split_to(with_devices(bytes_of(name), alternating), folder, kind)
        outside = 0
        for piece in done.connections.parts:
            with open_model(folder / piece.file) as part:
                offsets = [int(offset) for offset in part.buffers.offsets if offset > 1]
                offsets += part.operator_columns.tables.scalars("large_custom_options_offset")[0:].tolist()
                offsets = [offset for offset in offsets if offset > 1]
                assert all(offset % 16 == 0 and offset >= part.reachable.end for offset in offsets)
                outside += len(offsets)
        assert outside > 0
        assert check_files(open_split(folder)) == []


def test_a_part_past_two_gibibytes(tmp_path: Path) -> None:
    """The data is a hole, so that this takes neither time nor space."""
    if not hasattr(os, "SEEK_HOLE"):
        pytest.skip("this system does not tell where the holes of a file are")
    data = with_devices(bytes_of("circle/cnn_external"), alternating)
    with open_model(data) as found:
        rows = [index for index, offset in enumerate(found.buffers.offsets.tolist()) if offset > 1]
    for index, row in enumerate(rows):
        buffer = locate(data, "buffers", row)
        for slot, value in ((1, (1 << 20) + index * (3 << 30)), (2, 3 << 30)):
            data = put(data, field_at(data, buffer, slot), value.to_bytes(8, "little"))
    source = tmp_path / "large.circle"
    with source.open("wb") as file:
        file.write(data)
        file.truncate((1 << 20) + len(rows) * (3 << 30))
    done = split_file(source, tmp_path / "parts")
    sizes = [(tmp_path / "parts" / piece.file).stat() for piece in done.connections.parts]
    assert max(size.st_size for size in sizes) > 3 << 30
    assert sum(size.st_blocks * 512 for size in sizes) < 1 << 20
    for piece in done.connections.parts:
        with open_model(tmp_path / "parts" / piece.file) as part:
            assert not any(one.severity == "error" or is_dangling(one) for one in check(part))
