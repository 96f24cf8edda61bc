"""Operators that make sense only together with others: variables, and constants that are unpacked."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tests.kit.build import Code
from tools.measure.capability.single import Operand, Probe, Writer
from tools.measure.capability.template import EVERY, d


@dataclass(frozen=True)
class Company:
    """An operator to ask about, and the model that contains it."""

    probe: Probe
    model: bytes
    focus: int


def variables() -> Iterator[Company]:
    """Yield VAR_HANDLE, ASSIGN_VARIABLE and READ_VARIABLE for one variable."""
    handle = Operand("RESOURCE", ())
    for name in EVERY:
        for rank, kind in product(range(9), ("computed", "constant")):
            value, result_value = Operand(name, d(rank), kind), Operand(name, d(rank))
            writer = Writer()
            resource, source, result = (writer.operand(operand) for operand in (handle, value, result_value))
            writer.operator(Code("VAR_HANDLE"), [], [resource], ("VarHandleOptions", (("shared_name", "v"),)))
            writer.operator(Code("ASSIGN_VARIABLE"), [resource, source], [], ("AssignVariableOptions", ()))
            writer.operator(Code("READ_VARIABLE"), [resource], [result], ("ReadVariableOptions", ()))
            model = writer.ends([source] if kind == "computed" else [], [result])
            if name in ("FLOAT32", "INT8/t") and rank == 1 and kind == "computed":
                yield Company(Probe("VAR_HANDLE", (), (handle,)), model, 0)
            yield Company(Probe("ASSIGN_VARIABLE", (handle, value), ()), model, 1)
            if kind == "computed":
                yield Company(Probe("READ_VARIABLE", (handle,), (value,)), model, 2)


def sparse() -> Iterator[Company]:
    """Yield questions about DENSIFY of constants."""
    for name in ("FLOAT32", "FLOAT16", "INT8", "INT8/t", "UINT8/t"):
        for rank in (2, 4):
            packed, dense = Operand(name, d(rank), "constant", sparse=True), Operand(name, d(rank))
            probe = Probe("DENSIFY", (packed,), (dense,), table="DensifyOptions")
            yield Company(probe, probe.model, 0)


@dataclass(frozen=True)
class Unpacking:
    """An operator that unpacks a constant, in three models.

    A device treats the output as a constant if it accepts `fed` and `feeding` (a matrix product that needs constant
    weights, and the operator that produces them) but refuses `isolated`, whose reader runs only on CPUs.
    """

    probe: Probe
    fed: Company
    feeding: Company
    isolated: Company


def unpackings() -> Iterator[Unpacking]:
    """Yield questions about DEQUANTIZE and DENSIFY of constants."""
    for name in EVERY:
        yield _unpacking("DEQUANTIZE", name, "FLOAT32")
    for name in ("FLOAT32", "FLOAT16", "INT8/t"):
        yield _unpacking("DENSIFY", name, name)


def _unpacking(code: str, source: str, target: str) -> Unpacking:
    packed = Operand(source, (3, 4), "constant", sparse=code == "DENSIFY")
    probe = Probe(code, (packed,), (Operand(target, (3, 4)),))
    model, last = _before_a_product(probe)
    isolated = _before_atan2(probe)
    return Unpacking(probe, Company(probe, model, last), Company(probe, model, 0), Company(probe, isolated, 0))


def _start(probe: Probe) -> tuple[Writer, int]:
    writer = Writer()
    source, unpacked = writer.operand(probe.inputs[0]), writer.operand(probe.outputs[0])
    writer.operator(Code(probe.code), [source], [unpacked], (f"{probe.code.capitalize()}Options", ()))
    return writer, unpacked


def _before_a_product(probe: Probe) -> tuple[bytes, int]:
    writer, weights = _start(probe)
    name = probe.outputs[0].type
    if name == "FLOAT16":
        wide = writer.operand(Operand("FLOAT32", (3, 4)))
        writer.operator(Code("DEQUANTIZE"), [weights], [wide], ("DequantizeOptions", ()))
        name, weights = "FLOAT32", wide
    source, result = writer.operand(Operand(name, (2, 4))), writer.operand(Operand(name, (2, 3)))
    writer.operator(Code("FULLY_CONNECTED"), [source, weights, -1], [result], ("FullyConnectedOptions", ()))
    return writer.ends([source], [result]), len(writer.graph.table.operators) - 1


def _before_atan2(probe: Probe) -> bytes:
    writer, unpacked = _start(probe)
    other, result = (writer.operand(probe.outputs[0]) for _ in range(2))
    writer.operator(Code("ATAN2"), [unpacked, other], [result], ("ATan2Options", ()))
    return writer.ends([other], [result])
