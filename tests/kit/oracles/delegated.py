"""Which operators LiteRT's default delegate took, read from the runtime itself.

A delegate is asked what the plan of execution is when it is applied. So a second one, that takes nothing, is applied
after the first: in the plan it sees, an operator that the first one made has the list of those it replaced.

The structures are those of the C interface (`tflite/core/c/common.h`), as far as they are read.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any

from ai_edge_litert.interpreter import Interpreter

_ALLOW_DYNAMIC_TENSORS = 1


class _Operator(ctypes.Structure):
    _fields_ = (
        ("inputs", c_void_p),
        ("outputs", c_void_p),
        ("intermediates", c_void_p),
        ("temporaries", c_void_p),
        ("user_data", c_void_p),
        ("builtin_data", c_void_p),
        ("custom_initial_data", c_void_p),
        ("custom_initial_data_size", c_int),
        ("delegate", c_void_p),
    )


class _Params(ctypes.Structure):
    _fields_ = (("delegate", c_void_p), ("replaced", c_void_p), ("inputs", c_void_p), ("outputs", c_void_p))


class _Registration(ctypes.Structure):
    _fields_ = (
        ("init", c_void_p),
        ("free", c_void_p),
        ("prepare", c_void_p),
        ("invoke", c_void_p),
        ("profiling_string", c_void_p),
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
        ("tensors", c_void_p),
        ("impl", c_void_p),
        ("resize_tensor", c_void_p),
        ("report_error", c_void_p),
        ("add_tensors", c_void_p),
        ("get_operator", _GetOperator),
    )


class _Delegate(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("prepare", c_void_p),
        ("copy_from", c_void_p),
        ("copy_to", c_void_p),
        ("free", c_void_p),
        ("flags", c_int64),
        ("builder", c_void_p),
    )


@dataclass(frozen=True, slots=True)
class Delegated:
    """The plan of one subgraph, in order of execution: an operator index alone, or those in one DELEGATE."""

    plan: tuple[int | tuple[int, ...], ...]

    @property
    def partitions(self) -> tuple[tuple[int, ...], ...]:
        """The members of each DELEGATE."""
        return tuple(step for step in self.plan if isinstance(step, tuple))

    @property
    def taken(self) -> frozenset[int]:
        """The operators that are in some DELEGATE."""
        return frozenset(member for members in self.partitions for member in members)


def _integers(array: int | None) -> tuple[int, ...]:
    if not array:
        return ()
    size = c_int.from_address(array).value
    return tuple((c_int * size).from_address(array + ctypes.sizeof(c_int)))


def _read(context: int) -> Delegated:
    table = _Context.from_address(context)
    indices = c_void_p()
    table.get_execution_plan(context, ctypes.byref(indices))
    plan: list[int | tuple[int, ...]] = []
    for index in _integers(indices.value):
        operator, registration = POINTER(_Operator)(), POINTER(_Registration)()
        table.get_operator(context, index, ctypes.byref(operator), ctypes.byref(registration))
        found: Any = operator.contents
        plan.append(_integers(_Params.from_address(found.builtin_data).replaced) if found.delegate else index)
    return Delegated(tuple(plan))


def delegated(interpreter: Interpreter) -> list[Delegated]:
    """Return what each subgraph became; `allocate_tensors` must have been called, however it ended.

    Subgraphs that the interpreter hides from delegates (those of a composite that is delegated) are missing.
    """
    seen: list[Delegated] = []

    def look(context: int, _delegate: int) -> int:
        seen.append(_read(context))
        return 0

    prepare = CFUNCTYPE(c_int, c_void_p, c_void_p)(look)
    delegate = _Delegate(prepare=ctypes.cast(prepare, c_void_p), flags=_ALLOW_DYNAMIC_TENSORS)
    # The interpreter looks at the delegate again when it dies.
    interpreter._spy = (delegate, prepare)
    interpreter._interpreter.ModifyGraphWithDelegate(ctypes.addressof(delegate))
    return seen
