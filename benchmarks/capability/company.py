"""Operators that make sense only among others: variables, and constants that are unpacked."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.capability.single import Operand, Probe, Writer
from benchmarks.capability.template import EVERY, d


@dataclass(frozen=True)
class Company:
    """An operator that is asked about, in the model it is in."""

    probe: Probe
    model: bytes
    focus: int


def variables() -> Iterator[Company]:
    """Yield VAR_HANDLE, ASSIGN_VARIABLE and READ_VARIABLE of one variable."""
    handle = Operand("RESOURCE", ())
    for name in EVERY:
        for rank in range(9):
            value = Operand(name, d(rank))
            writer = Writer()
            resource, source, result = (writer.operand(operand) for operand in (handle, value, value))
            writer.graph.inputs, writer.graph.outputs = [source], [result]
            writer.operator("VAR_HANDLE", 1, [], [resource], "VarHandleOptions", (("shared_name", "v"),))
            writer.operator("ASSIGN_VARIABLE", 1, [resource, source], [], "AssignVariableOptions", ())
            writer.operator("READ_VARIABLE", 1, [resource], [result], "ReadVariableOptions", ())
            model = writer.finish()
            if name == "FLOAT32" and rank == 0:
                yield Company(Probe("VAR_HANDLE", (), (handle,)), model, 0)
            yield Company(Probe("ASSIGN_VARIABLE", (handle, value), ()), model, 1)
            yield Company(Probe("READ_VARIABLE", (handle,), (value,)), model, 2)


def unpacked() -> Iterator[tuple[Probe, bytes, bytes]]:
    """Yield DEQUANTIZE of constants with two models: it feeds the weights of a convolution, or an operator for CPUs.

    A device that counts its output as a constant takes both operators of the first and none of the second.
    """
    for name in EVERY:
        packed = Operand(name, (8, 3, 3, 4), "constant")
        probe = Probe("DEQUANTIZE", (packed,), (Operand("FLOAT32", (8, 3, 3, 4)),))
        yield probe, _feeds_convolution(packed), _feeds_atan2(packed)


def _start(packed: Operand) -> tuple[Writer, int]:
    writer = Writer()
    source, wide = writer.operand(packed), writer.operand(Operand("FLOAT32", packed.shape))
    writer.operator("DEQUANTIZE", 1, [source], [wide], "DequantizeOptions", ())
    return writer, wide


def _feeds_convolution(packed: Operand) -> bytes:
    writer, weights = _start(packed)
    image, bias, result = (
        writer.operand(operand)
        for operand in (
            Operand("FLOAT32", (1, 6, 6, 4)),
            Operand("FLOAT32", (8,), "constant"),
            Operand("FLOAT32", (1, 6, 6, 8)),
        )
    )
    writer.graph.inputs, writer.graph.outputs = [image], [result]
    options = (("stride_w", 1), ("stride_h", 1))
    writer.operator("CONV_2D", 1, [image, weights, bias], [result], "Conv2DOptions", options)
    return writer.finish()


def _feeds_atan2(packed: Operand) -> bytes:
    writer, wide = _start(packed)
    other, result = (writer.operand(Operand("FLOAT32", packed.shape)) for _ in range(2))
    writer.graph.inputs, writer.graph.outputs = [other], [result]
    writer.operator("ATAN2", 1, [wide, other], [result], "ATan2Options", ())
    return writer.finish()
