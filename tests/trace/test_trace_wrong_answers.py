"""What the older parser gets wrong, with the right answer."""

from __future__ import annotations

import pytest

from circletools.trace.nnapi.timeline import run_of
from tests.kit.trace_support import Ev, codes, ftrace, inclusive, own, read, table


@pytest.mark.parametrize("name", ["compute", "burstCompute", "startComputeWithDependencies"])
def test_synchronous_compute_takes_time(name: str) -> None:
    """It gives LR_PE 0."""
    found = read(f"10 T1 B [NN_LA_PE]run\n20 T1 B [NN_LR_PE]ANeuralNetworksExecution_{name}\n90 T1 E\n95 T1 E")
    assert inclusive(found) == {"LA_PE": 85, "LR_PE": 70}
    assert [one.elapsed_ns for one in found.executions] == [70_000]


@pytest.mark.parametrize(
    "call",
    [
        "HIDL::IPreparedModel::execute_1_2",
        "HIDL::IPreparedModel::execute_1_3",
        "HIDL::IPreparedModel::executeSynchronously",
        "HIDL::IPreparedModel::executeSynchronously_1_3",
        "HIDL::IPreparedModel::executeFenced",
        "AIDL::ndk::IPreparedModel::executeSynchronously",
        "AIDL::ndk::IPreparedModel::executeFenced",
        "AIDL::ndk::android.hardware.neuralnetworks.IBurst::executeSynchronously",
        "AIDL::cpp::IExecution::executeFenced",
    ],
)
def test_every_way_to_execute_is_driver_time(call: str) -> None:
    """It gives LD_PE 0 for HIDL 1.2 and later, executeSynchronously and AIDL."""
    sides = ("cppClient", "cppServer") if "cpp" in call else ("client", "server")
    found = read(f"10 T1 B {call}::{sides[0]}\n20 D1 B {call}::{sides[1]}\n70 D1 E\n90 T1 E")
    assert inclusive(found) == {"LI_PE": 80, "LD_PE": 50}
    calls = found.driver.of_driver()["server calls"]
    assert (list(calls[0]), list(calls[1])) == ([20_000], [70_000])
    assert codes(found) == []


def test_subtracted_time_counts_once() -> None:
    """It counts the runtime's time inside [SUB] twice."""
    found = read(
        """10 T1 B [NN_LR_PC]finish
           20 T1 B [NN_LI_PC]prepareModel
           30 T1 B [SUB][NN_LR_PC]VersionedIDevice::prepareModel
           50 T1 E
           90 T1 E
           95 T1 E"""
    )
    assert inclusive(found) == {"LR_PC": 85, "LI_PC": 50}


def test_no_self_time_is_negative() -> None:
    """It takes the driver's time from that of an IPC layer which has less of it."""
    call = "HIDL::IPreparedModel::execute"
    found = read(f"10 T1 B {call}::client\n15 D1 B {call}::server\n20 T1 E\n90 D1 E")
    assert own(found) == {"LI_PE": 10, "LD_PE": 75}


def test_the_time_of_the_cpu_is_not_taken_from_the_driver() -> None:
    """It takes CPU fallback time in the application from the driver's self time."""
    found = read(
        """10 T1 B [NN_LR_PE]run
           20 T1 B [NN_LC_PCO]conv
           60 T1 E
           70 T1 E
           20 D1 B HIDL::IPreparedModel::execute::server
           50 D1 E"""
    )
    assert own(found)["LD_PE"] == 30


def test_benchmark_ends_where_it_ends() -> None:
    """It counts to the benchmark all that follows it."""
    found = read(
        """10 T1 B [NN_LA_PO]model
           20 T1 B [NN_LA_PWU]warm
           25 T1 B [NN_LR_PE]e
           30 T1 E
           40 T1 E
           50 T1 B [NN_LA_PBM]bench
           55 T1 B [NN_LR_PE]e
           58 T1 E
           60 T1 E
           70 T1 B [NN_LR_PT]free
           77 T1 E
           80 T1 E"""
    )
    tables = {run_of(segment)[1]: part.inclusive_ns for segment, part in found.tables.items()}
    assert tables["warm-up"]["LR", "PE"] == 5_000
    assert tables["benchmark"]["LR", "PE"] == 3_000
    assert ("LR", "PT") not in tables["benchmark"]
    assert tables["overall"]["LR", "PT"] == 7_000
    assert tables["benchmark"]["LA", "PO"] == 10_000
    assert codes(found) == []


@pytest.mark.parametrize(("phase", "part"), [("PWU", "warm-up"), ("PBM", "benchmark")])
def test_only_one_of_warm_up_and_benchmark(phase: str, part: str) -> None:
    """It crashes."""
    found = read(f"10 T1 B [NN_LA_PO]m\n20 T1 B [NN_LA_{phase}]b\n30 T1 B [NN_LR_PE]e\n35 T1 E\n40 T1 E\n50 T1 E")
    tables = {run_of(segment)[1]: part_.inclusive_ns for segment, part_ in found.tables.items()}
    assert tables[part]["LR", "PE"] == 5_000
    assert codes(found) == ["T032"]


def test_a_wait_on_another_thread() -> None:
    """It crashes."""
    found = read(
        """10 T1 B [NN_LA_PE]run
           20 T1 B [NN_LR_PE]ANeuralNetworksExecution_startCompute
           30 T1 E
           40 T2 B [NN_LR_PE]ANeuralNetworksEvent_wait
           80 T2 E
           95 T1 E"""
    )
    assert [(one.elapsed_ns, one.thread) for one in found.executions] == [(60_000, 0)]
    assert own(found) == {"LA_PE": 25, "LR_PE": 60 + 40}  # in flight on one thread, waited for on the other
    assert codes(found) == []


def test_brackets_in_a_detail() -> None:
    """It takes the last bracket for the end of the tag."""
    found = read("10 T1 B [NN_LR_PP]operator[](int) [x]\n30 T1 E")
    assert inclusive(found) == {"LR_PP": 20}
    assert found.functions[0].name == "operator[](int) [x]"


def test_thousands_of_nested_scopes() -> None:
    """It crashes at more than 1,000."""
    deep = 5000
    begins = [Ev(at, 100001, "[NN_LR_PE]f" if at % 2 else "x") for at in range(deep)]
    ends = [Ev(deep + at, 100001, None) for at in range(deep)]
    found = read([*begins, *ends])
    assert inclusive(found) == {"LR_PE": 2 * deep - 3}
    assert next(one for one in found.functions if one.name == "f").inclusive_ns == (2 * deep - 3) * 1000


def test_a_cut_trace() -> None:
    """It crashes where scopes are open at the end."""
    found = read("10 T1 B [NN_LA_PO]m\n20 T1 B [NN_LR_PP]p\n30 T1 B [NN_LR_PP]q\n40 T2 B other\n")
    assert inclusive(found) == {"LA_PO": 30, "LR_PP": 20}
    assert "T011" in codes(found)
    assert found.runs[0].partial


@pytest.mark.parametrize("flags", ["...1", "....1", ".....", "d..2.", "-----", "dNh1"])
def test_flags_of_any_number(flags: str) -> None:
    """It finds nothing if there are five flags, without an error."""
    found = read(ftrace(table("10 T1 B [NN_LR_PP]p\n30 T1 E"), flags))
    assert inclusive(found) == {"LR_PP": 20}


def test_a_trace_without_marks_is_no_success() -> None:
    """It prints zeros and exits with 0."""
    assert codes(read("10 T1 B something\n20 T1 E")) == ["T001"]
