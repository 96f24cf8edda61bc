"""The operators that each delegate of LiteRT took, read from the runtime itself.

A delegate is asked what the plan of execution is when it is applied. So a second one, that takes nothing, is applied
after the others: in the plan it sees, an operator that a delegate made has the list of those it replaced.

The structures are those of the C interface (`tflite/core/c/common.h`), as far as they are read.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Mapping
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any

from circletools.runtimes.protocol import Placed

_ALLOW_DYNAMIC_TENSORS = 1
_NODE = re.compile(r"Node number (\d+) \((.*?)\) failed to \w+")


def _pointers(names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, c_void_p) for name in names.split())


class _Operator(ctypes.Structure):
    _fields_ = (
        *_pointers("inputs outputs intermediates temporaries user_data builtin_data custom_initial_data"),
        ("custom_initial_data_size", c_int),
        ("delegate", c_void_p),
    )


class _Params(ctypes.Structure):
    _fields_ = _pointers("delegate replaced inputs outputs")


class _Registration(ctypes.Structure):
    _fields_ = (
        *_pointers("init free prepare invoke profiling_string"),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int),
    )


_GetPlan = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
_GetOperator = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(POINTER(_Operator)), POINTER(POINTER(_Registration)))


class _Context(ctypes.Structure):
    _fields_ = (
        ("tensors_size", c_size_t),
        ("get_execution_plan", _GetPlan),
        *_pointers("tensors impl resize_tensor report_error add_tensors"),
        ("get_operator", _GetOperator),
    )


class _Delegate(ctypes.Structure):
    _fields_ = (*_pointers("data prepare copy_from copy_to free"), ("flags", c_int64), ("builder", c_void_p))


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan: the operators that a delegate replaced and its name, or one operator alone without a name."""

    operators: tuple[int, ...]
    delegate: str = ""


Plan = tuple[Step, ...]
"""The plan of one subgraph, in order of execution."""


def _integers(array: int | None) -> tuple[int, ...]:
    if not array:
        return ()
    size = c_int.from_address(array).value
    return tuple((c_int * size).from_address(array + ctypes.sizeof(c_int)))


def _read(context: int) -> Plan:
    table = _Context.from_address(context)
    indices = c_void_p()
    table.get_execution_plan(context, ctypes.byref(indices))
    plan: list[Step] = []
    for index in _integers(indices.value):
        operator, registration = POINTER(_Operator)(), POINTER(_Registration)()
        table.get_operator(context, index, ctypes.byref(operator), ctypes.byref(registration))
        found: Any = operator.contents
        if not found.delegate:
            plan.append(Step((index,)))
            continue
        name: bytes | None = registration.contents.custom_name
        replaced = _integers(_Params.from_address(found.builtin_data).replaced)
        plan.append(Step(replaced, (name or b"delegate").decode(errors="replace")))
    return tuple(plan)


class Spy:
    """A delegate that takes nothing; `plans` fills with the plan of each subgraph that it is applied to.

    It must live as long as what it is applied to, which looks at it again in the end.
    """

    def __init__(self) -> None:
        self.plans: list[Plan] = []

        def look(context: int, _delegate: int) -> int:
            self.plans.append(_read(context))
            return 0

        self._prepare = CFUNCTYPE(c_int, c_void_p, c_void_p)(look)
        self._delegate = _Delegate(prepare=ctypes.cast(self._prepare, c_void_p), flags=_ALLOW_DYNAMIC_TENSORS)
        self.address = ctypes.addressof(self._delegate)


def plans(interpreter: Any) -> list[Plan]:
    """Return the plan of each subgraph of an interpreter, whose `allocate_tensors` was called, however it ended.

    Subgraphs that the interpreter hides from delegates (those of a composite that is delegated) are missing.
    """
    interpreter._spy = spy = Spy()
    interpreter._interpreter.ModifyGraphWithDelegate(spy.address)
    return spy.plans


def nodes(text: str) -> list[Placed]:
    """Return the operators that an error names, the innermost first; those that delegates made have other names."""
    return [Placed("", text, None, int(number), code) for number, code in _NODE.findall(text)]


def placed(plans: Iterable[Plan], devices: Mapping[str, str]) -> tuple[Placed, ...]:
    """Return the operators of plans. `devices` has what runs the operators of each delegate; "" is who has none."""
    return tuple(
        Placed(devices.get(step.delegate, step.delegate), "", subgraph, operator)
        for subgraph, plan in enumerate(plans)
        for step in plan
        for operator in step.operators
    )
