"""Which program stands for a device."""

from __future__ import annotations

from typing import Any

import pytest

from circletools.errors import UsageError
from circletools.split.measuring import request
from circletools.split.measuring.request import Device, MeasureRequest, measured_devices


@pytest.fixture(autouse=True)
def one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "command", lambda program: ["python"])


def chosen(names: tuple[str, ...], *on: str) -> list[tuple[str, str, str]]:
    return [(one.name, one.program, one.variant) for one in measured_devices(names, MeasureRequest(on=on))]


def test_devices_are_those_that_are_named_in_their_order() -> None:
    given = ("cpu=openvino", "npu=litert:builtin", "onert=litert")
    assert chosen(("npu", "cpu", "onert"), *given) == [
        ("npu", "litert", "builtin"),
        ("cpu", "openvino", "CPU"),
        ("onert", "litert", "xnnpack"),
    ]
    assert chosen((), *given)[0] == ("cpu", "openvino", "CPU")


def test_a_device_that_is_called_as_a_program_needs_none() -> None:
    assert chosen(("litert", "onert:ruy")) == [("litert", "litert", "xnnpack"), ("onert:ruy", "onert", "ruy")]


@pytest.mark.parametrize(
    ("names", "on", "said", "hint"),
    [
        (("npu",), (), "no program is named for device 'npu'", "add npu=litert:xnnpack or the like"),
        (("npu",), ("npu",), "'npu': names no device or no program", "write npu=litert:xnnpack"),
        (("npu",), ("=litert",), "'=litert': names no device or no program", "write npu=litert:xnnpack"),
        (("npu",), ("npu=",), "'npu=': names no device or no program", "write npu=litert:xnnpack"),
        (("a",), ("a=litert", "a=onert"), "'a=onert': a second program for 'a'", "write npu=litert:xnnpack"),
        (("npu",), ("nqu=litert",), "'nqu=litert': device 'nqu' is not there", "did you mean 'npu'?"),
        (("npu",), ("npu=vela",), "vela cannot be measured", "there are litert, onert, openvino"),
        (("npu",), ("npu=litert:x",), "litert has no variant 'x'", None),
        ((), (), "no device is named", "name one as in npu=litert:xnnpack"),
    ],
)
def test_what_is_refused(names: tuple[str, ...], on: tuple[str, ...], said: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as error:
        chosen(names, *on)
    assert error.value.message == said
    if hint is not None:
        assert error.value.hint == hint


def test_parts_run_in_one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "command", lambda program: [program])
    assert measured_devices((), MeasureRequest(on=("a=onert", "b=onert:ruy")))[1] == Device("b", "onert", "ruy")
    with pytest.raises(UsageError, match="of several Pythons; parts are measured in one process"):
        chosen((), "a=onert", "b=litert")


def test_a_program_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(program: str) -> Any:
        raise UsageError(f"{program} is not installed")

    monkeypatch.setattr(request, "command", missing)
    with pytest.raises(UsageError, match="onert is not installed"):
        chosen((), "a=onert")


def test_defaults() -> None:
    found = MeasureRequest()
    assert (found.on, found.seconds, found.seed, found.timeout_s) == ((), 2.0, 0, 600.0)
