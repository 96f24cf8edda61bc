"""Limits of memory where no times are known."""

from __future__ import annotations

from typing import Any

import pytest

import circletools as ct
from tests.kit.support import path_of


def planned(*memory: str, devices: tuple[str, ...] = ("npu", "gpu", "cpu"), **request: Any) -> ct.types.Plan:
    with ct.open(path_of("circle/diamond")) as model:
        return ct.plan(model, ct.PlanRequest(devices=devices, memory=memory, **request))


def test_devices_are_filled_in_their_order() -> None:
    found = planned("npu=100", "gpu=300")
    npu, gpu, *_ = (used.total_bytes for used in found.evaluation[0].memory or ())
    assert (npu <= 100, gpu <= 300) == (True, True)
    assert {found.device_of(0, operator) for operator in range(6)} == {"npu", "gpu", "cpu"}
    assert found.evaluation[0].estimate is None
    assert found.reason(0, 1) == "the first device with enough memory"
    roomy = planned("npu=9999", rules=("index:0=cpu",))
    assert roomy.subgraphs[0].numbers == [2, 0, 0, 0, 0, 0]


def test_operators_that_fit_nowhere_are_refused() -> None:
    with pytest.raises(ct.EditError, match="npu has 1 bytes, but would need"):
        planned("npu=1", devices=("npu",))
