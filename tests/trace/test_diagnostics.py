"""Diagnostics of NNAPI traces."""

from __future__ import annotations

import pytest

from circletools.findings import explanations
from tests.kit.trace_support import SIMPLE, codes, lines, read, table

CASES = {
    "T001": "10 T1 B x\n20 T1 E",
    "T002": "10 T1 B [NN_LA_PO]m\n20 T1 E",
    "T010": "10 T1 E\n20 T1 B [NN_LR_PP]p\n30 T1 E",
    "T011": "10 T1 B [NN_LR_PP]p\n30 T2 B x",
    "T012": "10 T1 B [SW][NN_LC_PCO]p\n30 T1 E",
    "T020": "10 T1 B [NN_LR_PP]p\n20 T1 B [NN_LR_PC]p\n30 T1 E\n40 T1 E",
    "T021": "10 T1 B [NN_LC_PP]p\n20 T1 B [NN_LR_PP]p\n30 T1 E\n40 T1 E",
    "T022": "10 T1 B [NN_LX_PP]p\n20 T1 E",
    "T023": "10 T1 B [NN_LR]p\n20 T1 E",
    "T024": "10 T1 B [NN_LR_PU]p\n20 T1 E",
    "T030": "10 T1 B [NN_LI_PC]p\n20 T1 B [SUB][NN_LR_PC]p\n30 T1 E\n40 T1 E",
    "T031": "10 T1 B [NN_LA_PBM]p\n20 T1 E",
    "T032": "10 T1 B [NN_LA_PO]p\n15 T1 B [NN_LA_PBM]p\n20 T1 E\n30 T1 E",
    "T040": "10 T1 B [NN_LR_PE]ANeuralNetworksEvent_wait\n20 T1 E",
    "T041": "10 T1 B [NN_LR_PP]p\n20 T1 E\n30 A1 B [NN_LR_PP]p\n40 A1 E",
    "T050": "10 T1 B HIDL::IDevice::prepareModel::client\n20 T1 E",
}


@pytest.mark.parametrize("code", CASES)
def test_every_diagnostic(code: str) -> None:
    found = read(CASES[code])
    assert code in codes(found)
    assert all(one.location.startswith("<bytes>") and one.hint and one.count for one in found.diagnostics)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"CPU:3 [LOST 39 EVENTS]\n", "T003"),
        (b"# entries-in-buffer/entries-written: 10/20   #P:8\n", "T003"),
        (b"CPU:1 [7 EVENTS DROPPED]\n", "T003"),
        (b"            task-1001  ( 1000) [003] ...1 5.000001: tracing_mark_write: B|10\n", "T004"),
        (b"            task-1001  ( 1000) [003] ...1 5.x: tracing_mark_write: B|10|x\n", "T004"),
    ],
)
def test_diagnostics_of_the_recording(line: bytes, code: str) -> None:
    found = read(b"#\n" + line + b"".join(lines(table(SIMPLE))))
    (diagnostic,) = [one for one in found.diagnostics if one.code == code]
    assert (diagnostic.location, diagnostic.severity) == ("<bytes>:2", "error")


def test_a_loss_recorded_in_the_header_of_atrace() -> None:
    data = b"TRACE:\n# tracer: nop\n# entries-in-buffer/entries-written: 10/20   #P:8\n"
    assert codes(read(data + b"".join(lines(table(SIMPLE))))) == ["T003"]


def test_every_code_has_a_case() -> None:
    assert CASES.keys() | {"T003", "T004", "T005"} == {
        one.code for one in explanations().values() if one.subject == "traces"
    }


def test_equal_cases_are_merged() -> None:
    found = read("\n".join(f"{at} T1 B [NN_LX_PP]p\n{at} T1 E" for at in range(5)) + "\n9 T1 B [NN_LR_PP]p\n10 T1 E")
    assert [(one.code, one.count, one.location) for one in found.diagnostics] == [("T022", 5, "<bytes>:3")]


def test_compiling_within_an_execution_is_wrong_where_the_runtime_has_marks() -> None:
    text = "10 T1 B [NN_LA_PE]run\n20 T1 B [NN_LI_PC]prepareModel\n30 T1 E\n40 T1 E"
    shown, repaired = read(text).diagnostics
    assert (shown.code, repaired.code, repaired.severity, repaired.count) == ("T002", "T031", "info", 1)
    assert "[LI_PC]prepareModel inside [LA_PE]run (<bytes>:3)" in repaired.message
    assert "T020" in codes(read(f"1 T1 B [NN_LR_PP]p\n2 T1 E\n{text}"))
