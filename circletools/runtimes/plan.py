"""The operators that each LiteRT delegate took, as read from the runtime itself.

A delegate sees the execution plan when it is applied. Therefore, a second delegate that takes no operators is applied
after the others: in its plan, an operator created by another delegate lists the operators that it replaced.

The structures are those of the C interface (`tflite/core/c/common.h`), up to the last field that is read here.
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
    """A step of a plan: a delegate's name and the operators that it replaced, or a single operator without a name."""

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
    """A delegate that takes no operators; `plans` collects the plan of each subgraph to which it is applied.

    The delegate must outlive the interpreter, which uses the delegate once more when destroyed.
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
    """Return the plan of each subgraph of an interpreter after `allocate_tensors`, even if that failed.

    Subgraphs that the interpreter hides from delegates (bodies of delegated composites) are missing.
    """
    interpreter._spy = spy = Spy()
    interpreter._interpreter.ModifyGraphWithDelegate(spy.address)
    return spy.plans


def nodes(text: str) -> list[Placed]:
    """Return the operators in an error message, the innermost first, without those created by delegates."""
    return [Placed("", text, None, int(number), code) for number, code in _NODE.findall(text)]


def placed(plans: Iterable[Plan], devices: Mapping[str, str]) -> tuple[Placed, ...]:
    """Return the operators of these plans. `devices` maps delegates to devices; the key "" means no delegate."""
    return tuple(
        Placed(devices.get(step.delegate, step.delegate), "", subgraph, operator)
        for subgraph, plan in enumerate(plans)
        for step in plan
        for operator in step.operators
    )
