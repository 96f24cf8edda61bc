"""What is freed is kept for the next array, on glibc."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import numpy as np
if sys.argv[1] == "kept":
    from circletool_cli.console.process import keep_freed
    keep_freed()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    rows = [np.ones(125_000) for _ in range(20)]
    del rows
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps what it likes")
def test_pages_are_faulted_in_once() -> None:
    pytest.importorskip("resource", reason="this system has no resource")
    faults = {
        way: int(subprocess.run([sys.executable, "-c", _FAULTS, way], check=True, capture_output=True).stdout)
        for way in ("kept", "given back")
    }
    assert faults["kept"] * 10 < faults["given back"]
