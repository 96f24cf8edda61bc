"""Messages of the library name fields; the command line prints options."""

from __future__ import annotations

import pytest
from circletool_cli.signature import as_options


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`min_size=0`: a partition has an operator", "--min-size 0: a partition has an operator"),
        ("`parallel=True` and `memory=` exclude each other", "--parallel and --memory exclude each other"),
        ("write `traces=npu=trace.json`", "write --trace npu=trace.json"),
        ("run `circletool fix-outputs`", "run `circletool fix-outputs`"),
    ],
)
def test_fields_are_options(message: str, shown: str) -> None:
    assert as_options(message) == shown
