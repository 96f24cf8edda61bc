"""Findings about the affinity of a model: each with its place and its words."""

from __future__ import annotations

from collections.abc import Sequence

from circletools.affinity.tables import AFFINITY_STAMP, AFFINITY_TABLE, affinity_findings
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, annotated, produced_twice
from tests.kit.build import row
from tests.kit.support import bytes_of, edited

Found = tuple[str, str, str, str]
Ids = Sequence[int | None]
DIAMOND = bytes_of("circle/diamond")  # 0 feeds 1, 2 and 4; 1 and 2 feed 3; 3 and 4 feed 5


def found(data: bytes) -> list[Found]:
    with open_model(data) as model:
        return [(one.code, one.severity, one.location, one.message) for one in affinity_findings(model)]


def of(devices: Ids, partitions: Ids, data: bytes = DIAMOND) -> list[Found]:
    return found(annotated(data, affinity(["npu", "cpu"], (devices, partitions))))


FOUND: list[tuple[Ids, Ids, list[Found]]] = [
    ([0] * 6, [0] * 6, []),
    ([0, 1, 1, 1, 0, 1], [0, 1, 1, 1, 0, 2], []),
    ([0] * 6, [None] * 6, []),
    (
        [0, None, 0, None, 0, 0],
        [0, 1, 0, 2, 0, 3],
        [("UNASSIGNED_OPERATOR", "warning", "subgraphs[0].operators[1]", "no device is set for 2 of 6 operators")],
    ),
    (
        [0, 0, 0, 1, 0, 0],
        [0, 1, 2, 2, 3, 4],
        [("MIXED_PARTITION", "error", "subgraphs[0]", "partition 2 has operators on several devices")],
    ),
    (
        [1, 1, 0, 1, 1, 1],
        [0, 0, 1, 0, 0, 0],
        [("CYCLIC_PARTITION", "error", "subgraphs[0]", "partitions 0, 1 wait for each other")],
    ),
    (
        [1, 1, 0, 1, 1, 1],
        [7, 7, None, 7, 7, 7],
        [("CYCLIC_PARTITION", "error", "subgraphs[0]", "partitions 7 wait for each other")],
    ),
    (
        [1] * 6,
        [1, 0, 0, 0, 1, 0],
        [("MISNUMBERED_PARTITION", "warning", "subgraphs[0]", "partition 0 reads outputs of partition 1")],
    ),
    (
        [1] * 6,
        [0, 0, 0, 0, 0, 2],
        [("MISNUMBERED_PARTITION", "warning", "subgraphs[0]", "there are 2 partitions, but the highest number is 2")],
    ),
]


def test_devices_and_partitions() -> None:
    for devices, partitions, expected in FOUND:
        assert of(devices, partitions) == expected


def test_a_model_without_affinity_has_no_findings() -> None:
    assert found(DIAMOND) == []


def test_a_table_that_is_malformed_or_stale() -> None:
    ((code, severity, place, message),) = found(
        edited(DIAMOND, lambda edit: edit.set_metadata(AFFINITY_TABLE, b"\1\0\0\0"))
    )
    assert (code, severity, place) == ("MALFORMED_AFFINITY_TABLE", "error", f"metadata {AFFINITY_TABLE}")
    assert "at byte 0" in message
    shorter = annotated(DIAMOND, affinity(["npu"], ([0] * 5, [0] * 5)))
    assert found(edited(shorter, lambda edit: edit.remove_metadata(AFFINITY_STAMP))) == [
        (
            "STALE_AFFINITY",
            "warning",
            "subgraphs[0].operators[5]",
            "the tables no longer match the model: operators in the table: 5; in the model: 6",
        )
    ]


def tapped(*outputs: int) -> bytes:
    """Return NEG x -> b -> c -> d, of which these tensors are outputs."""
    build = row(*(("NEG", name) for name in "bcd"))
    build.model.subgraphs[0].outputs = outputs
    return build.to_bytes("circle")


def test_an_output_that_another_device_reads() -> None:
    def tap(slot: int, name: str, makes: str, reads: str, reader: int) -> Found:
        message = f"{name!r} is produced on {makes}, and operator {reader} reads it on {reads}"
        return ("CROSS_DEVICE_TAP", "warning", f"subgraphs[0].outputs[{slot}]", message)

    assert of([0, 1, 1], [0, 1, 1], tapped(3, 1)) == [tap(1, "b", "npu", "cpu", 1)]
    assert of([0, 0, 1], [0, 0, 1], tapped(3, 1)) == []
    assert of([0, 1, 0], [0, 1, 2], tapped(2, 1, 1, 3)) == [
        tap(0, "c", "cpu", "npu", 2),
        tap(1, "b", "npu", "cpu", 1),
    ]
    assert of([0, None, 0], [0, 1, 2], tapped(3, 1))[1:] == [tap(1, "b", "npu", "no device", 1)]
    assert of([0, 1, 1], [0, 1, 1], tapped(3, 0)) == []  # an input is made on no device


def test_operators_that_cannot_be_ordered() -> None:
    assert of([0, 0], [0, 0], produced_twice()) == [
        ("UNSCHEDULABLE_OPERATORS", "error", "subgraphs[0].tensors[1]", "two operators produce the tensor")
    ]
