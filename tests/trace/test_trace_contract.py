"""The contract between NNAPI's marks and their reader, row by row, with the times of each row."""

from __future__ import annotations

import pytest

from tests.kit.trace_support import codes, inclusive, own, read

# The times of the rows' t0, t1, ...: no two distances are equal.
T = (1000, 1001, 1003, 1007, 1015, 1031, 1063, 1127, 1255, 1511, 2023)


def rows(text: str) -> str:
    """Put in the times."""
    for at in range(len(T) - 1, -1, -1):
        text = text.replace(f"t{at} ", f"{T[at]} ")
    return text


def t(later: int, earlier: int) -> int:
    """Return the microseconds between two of the times."""
    return T[later] - T[earlier]


def test_baseline() -> None:
    found = read(rows("t0 T1 B [NN_LR_PP]funcP\nt1 T1 E"))
    assert inclusive(found) == own(found) == {"LR_PP": t(1, 0)}
    assert codes(found) == []


def test_local_call_to_another_layer() -> None:
    found = read(rows("t0 T1 B [NN_LA_PP]funcE1\nt1 T1 B [NN_LR_PP]funcC1\nt2 T1 E\nt3 T1 E"))
    assert inclusive(found) == {"LA_PP": t(3, 0), "LR_PP": t(2, 1)}
    assert own(found) == {"LA_PP": t(3, 0) - t(2, 1), "LR_PP": t(2, 1)}
    assert codes(found) == []


def test_a_phase_that_is_not_supposed_to_be_nested_is_reported() -> None:
    found = read(rows("t0 T1 B [NN_LA_PP]funcE1\nt1 T1 B [NN_LR_PC]funcC1\nt2 T1 E\nt3 T1 E"))
    (diagnostic,) = found.diagnostics
    assert (diagnostic.code, diagnostic.location) == ("T020", "<bytes>:4")
    assert "[LR_PC]funcC1 inside [LA_PP]funcE1 (<bytes>:3)" in diagnostic.message
    assert inclusive(found) == {"LA_PP": t(3, 0) - t(2, 1), "LR_PC": t(2, 1)}


def test_switch_phase_during_function() -> None:
    found = read(rows("t0 T1 B [NN_LC_PTR]funcC1\nt1 T1 B [SW][NN_LC_PCO]funcC1\nt2 T1 E\nt3 T1 E"))
    assert own(found) == {"LC_PTR": t(1, 0), "LC_PCO": t(2, 1)}  # t3 - t2 is negligible, and nobody's
    assert inclusive(found) == {"LC_PTR": t(1, 0), "LC_PCO": t(2, 1), "LC_PE": t(2, 0)}
    assert codes(found) == []


def test_a_second_switch_takes_the_place_of_the_first() -> None:
    found = read(
        rows("t0 T1 B [NN_LC_PTR]f\nt1 T1 B [SW][NN_LC_PCO]f\nt2 T1 B [SW][NN_LC_PR]f\nt3 T1 E\nt4 T1 E\nt5 T1 E")
    )
    assert own(found) == {"LC_PTR": t(1, 0), "LC_PCO": t(2, 1), "LC_PR": t(3, 2)}


def test_a_switch_after_the_end_of_another_takes_its_place() -> None:
    found = read(
        rows("t0 T1 B [NN_LC_PTR]f\nt1 T1 B [SW][NN_LC_PCO]f\nt2 T1 E\nt3 T1 B [SW][NN_LC_PR]f\nt4 T1 E\nt5 T1 E")
    )
    assert own(found) == {"LC_PTR": t(1, 0), "LC_PCO": t(2, 1), "LC_PR": t(4, 3)}
    assert codes(found) == []


def test_a_switch_with_nothing_to_switch_is_reported() -> None:
    found = read(rows("t0 T1 B foreign\nt1 T1 B [SW][NN_LC_PCO]f\nt2 T1 E\nt3 T1 E"))
    assert own(found) == {"LC_PCO": t(2, 1)}
    assert codes(found) == ["T012"]


def test_subphases_of_execution() -> None:
    found = read(rows("t0 T1 B [NN_LR_PE]funcR2\nt1 T1 B [NN_LC_PCO]funcC2\nt2 T1 E\nt3 T1 E"))
    assert inclusive(found) == {"LR_PE": t(3, 0), "LC_PCO": t(2, 1), "LC_PE": t(2, 1)}
    assert own(found) == {"LR_PE": t(3, 0) - t(2, 1), "LC_PCO": t(2, 1)}
    assert codes(found) == []


@pytest.mark.parametrize("phase", ["PIO", "PTR", "PCO", "PR"])
def test_every_subphase_is_part_of_execution(phase: str) -> None:
    found = read(
        rows(f"t0 T1 B [NN_LA_PBM]f\nt1 T1 B [NN_LR_PE]f\nt2 T1 B [NN_LR_{phase}]f\nt3 T1 E\nt4 T1 E\nt5 T1 E")
    )
    assert inclusive(found) == {"LA_PBM": t(5, 0), "LR_PE": t(4, 1), f"LR_{phase}": t(3, 2)}
    assert "T020" not in codes(found)


def test_additional_detail_in_the_same_layer() -> None:
    found = read(rows("t0 T1 B [NN_LR_PE]funcR3\nt1 T1 B [NN_LR_PE]funcR4\nt2 T1 E\nt3 T1 E"))
    assert inclusive(found) == own(found) == {"LR_PE": t(3, 0)}
    assert {(one.name, one.inclusive_ns // 1000) for one in found.functions} == {
        ("funcR3", t(3, 0)),
        ("funcR4", t(2, 1)),
    }


def test_synchronous_ipc_call() -> None:
    found = read(
        rows("""t0 T1 B [NN_LR_PC]funcR5
                t1 T1 B [NN_LI_PI]getCapabilities
                t2 T1 B HIDL::IDevice::getCapabilities::client
                t3 T1 E
                t4 T1 E
                t5 T1 E""")
    )
    assert inclusive(found) == {"LR_PC": t(5, 0) - t(4, 1), "LI_PI": t(4, 1)}
    assert "T020" not in codes(found)


def test_asynchronous_ipc_call_that_the_runtime_waits_for() -> None:
    found = read(
        rows("""t0 T1 B [NN_LI_PC]prepareModel
                t1 T1 B HIDL::IDevice::prepareModel_1_1::client
                t2 D1 B HIDL::IDevice::prepareModel_1_1::server
                t3 D1 B [NN_LD_PC]SampleDriver::prepareModel
                t4 D1 B HIDL::IPreparedModelCallback::notify::client
                t5 D1 E
                t6 D1 E
                t6 D1 E
                t8 T1 B HIDL::IPreparedModelCallback::notify::server
                t9 T1 E
                t9 T1 E
                t10 T1 E""")
    )
    # The row has the stub's end at a t7 of its own, less than 0.05 ms after t6; here they are one.
    assert inclusive(found) == {"LI_PC": t(10, 0), "LD_PC": t(6, 2)}
    assert codes(found) == []


def test_subtracting_time_when_nesting_is_violated() -> None:
    found = read(
        rows("t0 T1 B [NN_LI_PC]prepareModel\nt1 T1 B [SUB][NN_LR_PC]VersionedIDevice::prepareM\nt2 T1 E\nt3 T1 E")
    )
    assert inclusive(found) == own(found) == {"LI_PC": t(3, 0) - t(2, 1), "LR_PC": t(2, 1)}
    assert codes(found) == ["T030"]


def test_subtraction_ends_at_the_scope_of_the_same_layer() -> None:
    found = read(
        rows("""t0 T1 B [NN_LA_PC]compile
                t1 T1 B [NN_LR_PC]ANeuralNetworksCompilation_finish
                t2 T1 B [NN_LI_PC]prepareModel
                t3 T1 B [SUB][NN_LR_PC]VersionedIDevice::prepareModel
                t4 T1 E
                t5 T1 E
                t6 T1 E
                t7 T1 E""")
    )
    assert inclusive(found) == {"LA_PC": t(7, 0), "LR_PC": t(6, 1), "LI_PC": t(5, 2) - t(4, 3)}
    assert own(found)["LR_PC"] == t(6, 1) - t(5, 2) + t(4, 3)
    assert codes(found) == []


def test_onetime_initialization_code() -> None:
    found = read(rows("t0 T1 B [NN_LR_PP]funcR5\nt1 T1 B [NN_LR_PI]funcI\nt2 T1 E\nt3 T1 E"))
    assert inclusive(found) == {"LR_PI": t(2, 1), "LR_PP": t(3, 0) - t(2, 1)}
    assert codes(found) == []


def test_utility_code() -> None:
    found = read(rows("t0 T1 B [NN_LR_PP]funcR6\nt1 T1 B [NN_LU_PU]funcU\nt2 T1 E\nt3 T1 E"))
    assert inclusive(found) == own(found) == {"LR_PP": t(3, 0)}
    assert codes(found) == []


def test_execution_takes_from_its_start_to_the_end_of_the_wait() -> None:
    found = read(
        rows("""t0 T1 B [NN_LA_PE]benchmark
                t1 T1 B [NN_LR_PE]ANeuralNetworksExecution_startCompute
                t2 T1 E
                t5 T1 B [NN_LR_PE]ANeuralNetworksEvent_wait
                t6 T1 E
                t7 T1 E""")
    )
    assert inclusive(found) == {"LA_PE": t(7, 0), "LR_PE": t(6, 1)}
    assert own(found) == {"LA_PE": t(7, 0) - t(6, 1), "LR_PE": t(6, 1)}
    assert [(one.kind, one.elapsed_ns // 1000) for one in found.executions] == [("asynchronous", t(6, 1))]


LEGAL_LAYERS = {"LA": "LA LR", "LR": "LR LI LC", "LI": "LI", "LC": "LC"}
LEGAL_PHASES = {
    "PO": "PO PWU PBM PI PP PC PE PT PIO PTR PCO PR",
    "PWU": "PWU PI PE PIO PTR PCO PR",
    "PBM": "PBM PI PE PIO PTR PCO PR",
    "PE": "PE PI PIO PTR PCO PR",
    **{phase: f"{phase} PI" for phase in ("PP", "PC", "PT", "PIO", "PTR", "PCO", "PR")},
    "PI": "PI",
}


@pytest.mark.parametrize("outer", LEGAL_LAYERS)
@pytest.mark.parametrize("inner", LEGAL_LAYERS)
def test_layers_in_layers(outer: str, inner: str) -> None:
    runtime = "1 T2 B [NN_LR_PP]other\n2 T2 E\n"  # without a runtime the application may hold what it will
    found = read(f"{runtime}3 T1 B [NN_{outer}_PP]outer\n4 T1 B [NN_{inner}_PP]inner\n5 T1 E\n6 T1 E")
    assert ("T021" in codes(found)) == (inner not in LEGAL_LAYERS[outer].split())


@pytest.mark.parametrize("outer", LEGAL_PHASES)
@pytest.mark.parametrize("inner", LEGAL_PHASES)
def test_phases_in_phases(outer: str, inner: str) -> None:
    found = read(f"3 T1 B [NN_LR_{outer}]outer\n4 T1 B [NN_LR_{inner}]inner\n5 T1 E\n6 T1 E")
    assert ("T020" in codes(found)) == (inner not in LEGAL_PHASES[outer].split())


def test_the_unspecified_phase_is_that_of_the_mark_around_it() -> None:
    found = read(rows("t0 T1 B [NN_LA_PT]free\nt1 T1 B [NN_LR_PU]helper\nt2 T1 E\nt3 T1 E"))
    assert inclusive(found) == {"LA_PT": t(3, 0), "LR_PT": t(2, 1)}
    alone = read(rows("t0 T1 B [NN_LR_PU]helper\nt1 T1 E"))
    assert (inclusive(alone), "T024" in codes(alone)) == ({}, True)


def test_a_driver_in_the_process_of_its_client_is_cpu_time() -> None:
    found = read(
        rows("""t0 T1 B [NN_LR_PE]run
                t1 T1 B [NN_LI_PE]execute
                t2 T1 B HIDL::IPreparedModel::execute::passthrough
                t3 T1 B [NN_LD_PCO]work
                t4 T1 E
                t5 T1 E
                t6 T1 E
                t7 T1 E""")
    )
    assert inclusive(found) == {"LR_PE": t(7, 0), "LI_PE": t(6, 1), "LC_PE": t(5, 2), "LC_PCO": t(4, 3)}
    assert codes(found) == []


def test_cpu_marks_in_a_driver_process_are_driver_time_even_before_its_first_call() -> None:
    found = read(rows("t0 D1 B [NN_LC_PE]early\nt1 D1 E\nt2 D2 B HIDL::IDevice::prepareModel::server\nt3 D2 E"))
    assert inclusive(found) == {"LD_PE": t(1, 0), "LD_PC": t(3, 2)}
