"""The same two models give the same answer in every process, whatever order its sets have."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.kit.support import TESTDATA

PROGRAM = """
import sys
import circletools as ct
from circletools.origin.tracking.tracker import track
with ct.open(sys.argv[1]) as before, ct.open(sys.argv[2]) as after:
    print([sorted(rows.items()) for rows in track(before, after).grounds])
"""


def test_confidences_do_not_depend_on_the_order_of_sets() -> None:
    pair = [str(TESTDATA / "tracking" / f"attention_small.optimised.{side}.circle") for side in ("before", "after")]
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *pair],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(told) == 1
