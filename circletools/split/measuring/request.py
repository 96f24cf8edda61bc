"""Which program stands for a device, and how long to measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circletools.errors import UsageError
from circletools.runtimes.programs import command, named
from circletools.wording import suggestion

MEASURING = ("litert", "onert", "openvino")
"""The programs whose runs can be timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """How devices are measured.

    `on`: `DEVICE=PROGRAM[:VARIANT]`, what runs a device; one that is called as a program needs none.
    `seconds`: how long a plan is run. `seed`: of the random inputs.
    `timeout_s`: the most that loading and measuring a model may take.
    """

    on: tuple[str, ...] = ()
    seconds: float = 2.0
    seed: int = 0
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Device:
    """A device, and the program and its variant that run what is on it."""

    name: str
    program: str
    variant: str


def measured_devices(names: Sequence[str], request: MeasureRequest) -> tuple[Device, ...]:
    """Return the program of each of these devices; without names, all that the request has.

    Raises UsageError for a device that no program is known for, a program that cannot be measured or is not
    installed, and programs of several Pythons.
    """
    chosen: dict[str, str] = {}
    for words in request.on:
        device, equals, program = words.partition("=")
        if not equals or not device or not program or device in chosen:
            problem = f"a second program for {device!r}" if device in chosen else "names no device or no program"
            raise UsageError(f"{words!r}: {problem}", hint="write npu=litert:xnnpack")
        if names and device not in names:
            raise UsageError(f"{words!r}: device {device!r} is not there", hint=suggestion(device, names))
        chosen[device] = program
    devices = []
    for name in names or chosen:
        if name not in chosen and name.partition(":")[0] not in MEASURING:
            raise UsageError(
                f"no program is named for device {name!r}", hint=f"add {name}=litert:xnnpack or the like"
            )
        program, variant = named(chosen.get(name, name))
        if program not in MEASURING:
            raise UsageError(f"{program} cannot be measured", hint=f"there are {', '.join(MEASURING)}")
        devices.append(Device(name, program, variant))
    if not devices:
        raise UsageError("no device is named", hint="name one as in npu=litert:xnnpack")
    if len({tuple(command(device.program)) for device in devices}) > 1:
        raise UsageError("the programs are of several Pythons; parts are measured in one process, with one Python")
    return tuple(devices)
