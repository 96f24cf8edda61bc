"""The documents on traces, and public traces where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from circletools.trace.nnapi.marks import LAYERS, PHASES
from circletools.trace.sources import Event
from tests.kit.trace_support import document, read


def test_an_event_has_the_fields_that_others_use() -> None:
    assert Event._fields == ("t_ns", "tid", "tgid", "kind", "text", "where")


PUBLIC = (
    "syn3000.html",
    "syn3000.html.gz",
    "syn3000.ftrace",
    "syn3000.ctrace",
    "syn3000.pftrace",
    "syn3000.compressed.pftrace",
)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_trace_in_six_encodings(name: str, shared: Path) -> None:
    expected = document((shared / "traces" / "syn3000.ftrace").read_bytes())
    assert document((shared / "traces" / name).read_bytes()) == expected


# The public device trace. Where the older parser's output has none of its known defects, its totals (its `times`, in
# ms) must come out here; exceptions are explained.
DIFFERENCES = {
    (0, "LI", "PI"): (82.768, 74.643, "it counts calls of IServiceManager and IBase, which are not of NN"),
    (0, "LD", "PI"): (74.512, 74.415, "the same, on the driver's side"),
    (0, "LA", "PE"): (39.159, 44.617, "those calls pause it there; here it goes on"),
    **{
        (run, "LD", "PE"): (old, new, "it ends where the callback begins; here, where the call ends")
        for run, (old, new) in enumerate(
            ((20.730, 20.836), (10.519, 10.609), (14.184, 14.339), (15.983, 16.151), (13.012, 13.145))
        )
    },
    **{
        (run, "LI", "PE"): (0.0, new, "it leaves the client's side of execute out")
        for run, new in enumerate((21.438, 11.286, 15.024, 16.719, 13.695))
    },
}


def test_the_public_device_trace_gives_its_totals(shared: Path) -> None:
    found = read((shared / "traces" / "omr1.html").read_bytes())
    reference = json.loads((shared / "traces" / "omr1.reference.json").read_bytes())
    assert len(reference) == len(found.runs) == 5
    seen = set()
    for run in found.runs:
        table_ = found.tables[run.first_segment].inclusive_ns
        old = reference[run.index]["times"]
        for layer in LAYERS:
            for phase in (one for one in PHASES if one in old and not (layer != "LA" and one == "PO")):
                ours, theirs = table_.get((layer, phase), 0) / 1e6, old[phase][layer] or 0.0
                if (run.index, layer, phase) in DIFFERENCES:
                    was, now, _ = DIFFERENCES[run.index, layer, phase]
                    assert [theirs, ours] == pytest.approx([was, now], abs=1e-3)
                    seen.add((run.index, layer, phase))
                elif "PWU" != phase != "PBM":
                    assert ours == pytest.approx(theirs, abs=1e-3), (run.index, layer, phase)
    assert seen == DIFFERENCES.keys()
    calls = found.driver.of_driver()["requests and callbacks"]
    by_callback = [(end - start) / 1e6 for start, end in zip(*calls, strict=True)]
    assert by_callback == pytest.approx([20.730, 10.519, 14.184, 15.983, 13.012], abs=1e-3)
