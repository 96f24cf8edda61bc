"""The meaning of a begin event's text: layer, phase, and role.

    [SW]?[SUB]?[NN_<layer>_<phase>]detail      marks of NNAPI
    HIDL::<interface>::<method>::<side>        calls of the HAL, from generated code
    AIDL::<backend>::<interface>::<method>::<side>

marks.json holds the names and tables. The HAL methods are those of Android's interfaces in
hardware/interfaces/neuralnetworks, versions 1.0 to 1.3 and aidl.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, auto
from pathlib import Path
from sys import intern
from typing import Any

_TABLES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

LAYER_NAMES: dict[str, str] = _TABLES["layers"]
LAYERS = tuple(LAYER_NAMES)
"""The layers whose time is counted: application, runtime, IPC, driver and CPU."""

UNCOUNTED = ("LU", "LO")
"""Layers that add no time: utility and other code."""

PHASE_NAMES: dict[str, str] = _TABLES["phases"]
PHASES = tuple(PHASE_NAMES)
"""Overall, warm-up, benchmark, initialization, preparation, compilation, execution and its parts, and termination."""

SUBPHASES = ("PIO", "PTR", "PCO", "PR")
UNSPECIFIED = "PU"


class Role(IntEnum):
    """The role of a mark beyond its time: it sets the run or application phase, or is evidence of executions.

    The runtime's marks, up to COMPUTE, are the best evidence; the others are evidence in clients and in drivers. A
    request is a call that returns before the execution has ended; a callback then delivers the result.
    """

    NONE = 0
    RUN = auto()
    WARM_UP = auto()
    BENCHMARK = auto()
    START = auto()
    FENCED = auto()
    WAIT = auto()
    COMPUTE = auto()
    CALLBACK = auto()
    SERVER_CALLBACK = auto()
    CALL = auto()
    REQUEST = auto()
    APPLICATION = auto()
    SERVED_CALL = auto()
    SERVED_REQUEST = auto()
    DRIVER = auto()


BEGIN_ONLY = (Role.START, Role.CALLBACK, Role.SERVER_CALLBACK)
"""The roles of marks whose end events have no effect."""


class HalSide(Enum):
    """The side of the HAL interface that wrote a mark."""

    NONE = auto()
    CLIENT = auto()
    SERVER = auto()
    PASSTHROUGH = auto()


@dataclass(frozen=True, slots=True)
class Mark:
    """The meaning of a begin event. `layer` is empty if it adds no time; `fault` is the code for an invalid tag.

    `in_process` is set for driver code that runs outside a driver process, and so counts as CPU.
    """

    layer: str = ""
    phase: str = ""
    name: str = ""
    switch: bool = False
    subtract: bool = False
    role: Role = Role.NONE
    side: HalSide = HalSide.NONE
    fault: str = ""
    in_process: bool = False

    def in_driver(self, driver: bool) -> Mark:
        """Return the mark as it counts in a driver process or, if not `driver`, elsewhere."""
        if driver and self.layer == "LC":
            return replace(self, layer="LD")
        if not driver and self.layer == "LD":
            return replace(self, layer="LC", in_process=True)
        return self

    @property
    def text(self) -> str:
        """The text of the mark; for a HAL call, that of the equivalent NNAPI mark."""
        return f"[{self.layer}_{self.phase}]{self.name}" if self.layer else self.name


FOREIGN = Mark()
"""A begin event that is not an NNAPI mark."""

_TAG = re.compile(rb"(\[SW\])?(\[SUB\])?\[NN_(L[A-Z]*)_(P[A-Z]*)\](.*)", re.DOTALL)
_BEGINNING = re.compile(rb"\s*(?:\[(?:SW|SUB)\]\s*){0,9}\[NN_")  # unbounded groups take memory for each repetition
_HIDL = re.compile(rb"HIDL::(\w+)::(\w+)::(client|server|passthrough)")
_AIDL = re.compile(
    rb"AIDL::\w+::(?:android\.hardware\.neuralnetworks\.)?(\w+)::(\w+)::(client|server|cppClient|cppServer)"
)
_VERSION = re.compile(rb"_1_\d$")
_CALLS: dict[tuple[bytes, bytes], str] = {
    (interface.encode(), method.encode()): phase
    for interface, phases in _TABLES["calls"].items()
    for phase, methods in phases.items()
    for method in methods
}
_ROLES = {("LA", "PO"): Role.RUN, ("LA", "PWU"): Role.WARM_UP, ("LA", "PBM"): Role.BENCHMARK}
_EXECUTIONS = {name: Role[role] for name, role in _TABLES["executions"].items()}


def role_of(mark: Mark) -> Role:
    """Return the role of a mark as evidence of executions, given by its HAL call or by its layer and phase."""
    served = mark.side is HalSide.SERVER
    if mark.role is Role.CALLBACK and served:
        return Role.SERVER_CALLBACK
    if mark.role or mark.phase != "PE":
        return mark.role
    returns = "::execute" in mark.name and "Synchronously" not in mark.name
    if mark.side is HalSide.CLIENT and "::execute" in mark.name:
        return Role.REQUEST if returns and "Fenced" not in mark.name else Role.CALL
    own = Role.SERVED_REQUEST if returns else Role.SERVED_CALL
    other = own if served else Role.DRIVER if mark.layer == "LD" else Role.NONE
    return Role.APPLICATION if mark.layer == "LA" else other


def classify(text: bytes) -> Mark:
    """Return the mark for the text of a begin event."""
    start = text[:1]
    if start in (b"H", b"A"):
        call = _HIDL.fullmatch(text) or _AIDL.fullmatch(text)
        return _call(text, *call.groups()) if call else FOREIGN
    if not _BEGINNING.match(text):
        return FOREIGN
    tag = _TAG.fullmatch(text)
    if tag is None:
        return Mark(name=_decoded(text), fault="T023")
    layer, phase, name = intern(tag[3].decode()), intern(tag[4].decode()), _decoded(tag[5])
    if layer not in LAYERS + UNCOUNTED or (phase not in PHASES and phase != UNSPECIFIED):
        return Mark(name=_decoded(text), fault="T022")
    if layer in UNCOUNTED:
        return FOREIGN
    runtime = (layer, phase) == ("LR", "PE")
    role = _EXECUTIONS.get(name, Role.NONE) if runtime else _ROLES.get((layer, phase), Role.NONE)
    return Mark(layer, phase, name, tag[1] is not None, tag[2] is not None, role)


def _call(text: bytes, interface: bytes, method: bytes, side: bytes) -> Mark:
    """Return the mark of a HAL call; FOREIGN for interfaces other than those of NN devices."""
    method, known = _VERSION.sub(b"", method), HalSide[side.decode().removeprefix("cpp").upper()]
    if interface == b"IExecutionCallback" and method == b"notify":
        return Mark(name=_decoded(text), role=Role.CALLBACK, side=known)
    phase = _CALLS.get((interface, method))
    if phase is None:
        return FOREIGN
    return Mark("LI" if known is HalSide.CLIENT else "LD", phase, _decoded(text), side=known)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")
