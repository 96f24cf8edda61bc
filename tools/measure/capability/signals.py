"""Questions about TensorFlow Lite Micro's signal operators: custom operators of speech front ends.

Inputs, outputs and options are those that the operators' registrations for TensorFlow declare (tflite-micro,
signal/tensorflow_core/ops).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from flatbuffers import flexbuffers

from tools.measure.capability.company import Company
from tools.measure.capability.single import TYPES, Operand
from tools.measure.capability.special import custom

_Signal = tuple[str, Sequence[Operand], Sequence[Operand], dict[str, Any]]
_NUMBERS = ("FLOAT32", "INT16", "INT32")
_OTHERS = ("FLOAT32", "INT8", "INT16", "INT32", "UINT32", "UINT64")
SIZES = (16, 32, 64)
_SUBTRACTION = {
    "smoothing": 1, "one_minus_smoothing": 1, "alternate_smoothing": 1, "alternate_one_minus_smoothing": 1,
    "smoothing_bits": 10, "min_signal_remaining": 1, "clamping": False, "spectral_subtraction_bits": 14,
}  # fmt: skip


def _signals(size: int) -> Iterator[_Signal]:
    """Yield the operators for frames of `size` samples."""
    frame, half, channels = (Operand("INT16", (number,)) for number in (size, size + 2, 4))
    window, energies = replace(frame, kind="constant"), Operand("UINT32", (size // 2 + 1,))
    sums, roots, none = Operand("UINT64", (4,)), Operand("UINT32", (4,)), Operand("INT32", ())
    flag = Operand("BOOL", ())
    yield "SignalWindow", (frame, window), (frame,), {"shift": 12}
    yield "SignalFftAutoScale", (frame,), (frame, none), {}
    for name in _NUMBERS:
        short, long = Operand(name, (size,)), Operand(name, (size + 2,))
        options = {"T": TYPES.index(name), "fft_length": size}
        yield "SignalRfft", (short,), (long,), options
        yield "SignalIrfft", (long,), (short,), options
        frames, samples = Operand(name, (1, 3, size)), Operand(name, (1, 3 * size // 2))
        yield "SignalOverlapAdd", (frames,), (samples,), {"T": TYPES.index(name), "frame_step": size // 2}
    yield "SignalEnergy", (half,), (energies,), {"start_index": 1, "end_index": size // 2}
    weights = replace(channels, shape=(size,), kind="constant")
    places = [Operand("INT16", (5,), "constant", tuple(float(at) for at in values)) for values in _bands()]
    yield "SignalFilterBank", (energies, weights, weights, *places), (sums,), {"num_channels": 4}
    yield "SignalFilterBankSquareRoot", (sums, none), (roots,), {}
    yield "SignalFilterBankSpectralSubtraction", (roots,), (roots, roots), _SUBTRACTION | {"num_channels": 4}
    yield "SignalPCAN", (roots, roots, Operand("INT16", (128,), "constant")), (roots,), {"snr_shift": 6}
    yield "SignalFilterBankLog", (roots,), (channels,), {"output_scale": 1600, "input_correction_bits": 3}
    samples = Operand("INT16", (1, 2 * size))
    frames = Operand("INT16", (1, 2, size + size // 2))
    framing = {"frame_size": size + size // 2, "frame_step": size, "prefill": True}
    yield "SignalFramer", (samples,), (frames, flag), framing
    yield "SignalDelay", (samples,), (samples,), {"delay_length": 3}
    stacking = {"num_channels": 4, "stacker_left_context": 1, "stacker_right_context": 0, "stacker_step": 2}
    yield "SignalStacker", (channels,), (Operand("INT16", (8,)), flag), stacking


def _bands() -> tuple[list[int], ...]:
    """Return where the channels begin among the frequencies and among the weights, and their widths."""
    return [0, 1, 2, 3, 4], [0, 2, 4, 6, 8], [1, 1, 1, 1, 1]


def signals() -> Iterator[Company]:
    """Yield each operator for several sizes, and with another type, rank or number of operands."""
    for code, inputs, outputs, options in (row for size in SIZES for row in _signals(size)):
        for sources, results in _variants(inputs, outputs):
            yield custom(code, sources, results, bytes(flexbuffers.Dumps(options)), 1)


def _variants(
    inputs: Sequence[Operand], outputs: Sequence[Operand]
) -> Iterator[tuple[Sequence[Operand], Sequence[Operand]]]:
    yield inputs, outputs
    yield (*inputs, inputs[-1]), outputs
    if len(inputs) > 1:
        yield inputs[:-1], outputs
    operands, count = (*inputs, *outputs), len(inputs)
    for more in range(1, 5):
        outer = tuple(replace(one, shape=(1,) * (more * (one.kind != "constant")) + one.shape) for one in operands)
        yield outer[:count], outer[count:]
        outer = tuple(other if one.shape else one for one, other in zip(operands, outer, strict=True))
        yield outer[:count], outer[count:]
    for at, operand in enumerate(operands):
        others = [replace(operand, type=name) for name in _OTHERS if name != operand.type]
        others.append(replace(operand, shape=(1, *operand.shape)))
        if operand.kind == "constant":
            others.append(replace(operand, kind="computed"))
        for other in others:
            row = (*operands[:at], other, *operands[at + 1 :])
            yield row[:count], row[count:]
