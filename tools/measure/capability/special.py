"""Operators not identified by their codes: custom operators, composites, and products with blockwise weights."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from flatbuffers import flexbuffers

from tests.kit.build import Code, Table
from tools.measure.capability.company import Company
from tools.measure.capability.single import Operand, Probe, Writer
from tools.measure.capability.template import LAST_VERSION

_FLOATS = ("FLOAT32", "FLOAT16", "INT8/t", "UINT8/t")
_POOL = struct.pack("<10i", 2, 2, 2, 2, 2, *(0,) * 5)
"""TfLitePoolParams: VALID, stride and window 2 by 2; the fields that a kernel computes are zero."""
CUSTOM_CODES = (
    *("Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Resampler"),
    *("TransformTensorBilinear", "TransformLandmarks", "Landmarks2TransformMatrix"),
    *("AudioSpectrogram", "Mfcc", "TFLite_Detection_PostProcess", "FlexAddV2", "aeq.hadamard_rotation"),
)
COMPOSITES = (
    *(
        "odml.scaled_dot_product_attention",
        "odml.rms_norm",
        "odml.group_norm",
        "odml.layer_norm",
        "odml.pixel_shuffle",
    ),
    *(
        "odml.update_kv_cache",
        "odml.runtime_bmm",
        "odml.softmax",
        "odml.add_values",
        "aten.gelu.default",
        "test.bend",
    ),
    *("odml.npu_call", "odml.detector", "odml.upsample_bilinear2d", "odml.upsample_nearest2d", "odml.l2_norm"),
)


def customs() -> Iterator[Company]:
    """Yield custom operators that runtimes are known to support by name."""
    for name, version in product(_FLOATS, (1, 2)):
        image, small = Operand(name, (1, 4, 4, 2)), Operand(name, (1, 2, 2, 2))
        weights, bias = Operand(name, (2, 2, 2, 2), "constant"), Operand(name, (2,), "constant")
        for bytes_ in (12, 16, 20):
            options = struct.pack("<5i", 2, 2, 2, 0, 0)[:bytes_]
            yield custom("Convolution2DTransposeBias", (small, weights, bias), (image,), options, version)
        yield custom("MaxPoolingWithArgmax2D", (image,), (small, small), _POOL, version)
        yield custom("MaxUnpooling2D", (small, small), (image,), _POOL, version)
        for code in CUSTOM_CODES[3:]:
            yield custom(code, (image,), (image,), b"", version)
            yield custom(code, (image, replace(small, shape=(1, 4, 4, 2))), (image,), b"", version)


def detections() -> Iterator[Company]:
    """Yield the last operator of detectors, which computes four lists from boxes, classes and anchors."""
    given = {
        "max_detections": 5, "max_classes_per_detection": 1, "num_classes": 3, "use_regular_nms": False,
        "nms_score_threshold": 0.25, "nms_iou_threshold": 0.5,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    results = tuple(Operand("FLOAT32", shape) for shape in ((1, 5, 4), (1, 5), (1, 5), (1,)))
    for name, regular, kind in product(("FLOAT32", "INT8/t", "UINT8/t"), (False, True), ("constant", "computed")):
        boxes = Operand(name, (1, 8, 4))
        inputs = (boxes, boxes, Operand(name, (8, 4), kind))
        options = bytes(flexbuffers.Dumps(given | {"use_regular_nms": regular}))
        yield custom("TFLite_Detection_PostProcess", inputs, results, options, 1)


def custom(code: str, inputs: Sequence[Operand], outputs: Sequence[Operand], options: bytes, version: int) -> Company:
    """Return the question about a custom operator."""
    probe = Probe(f"CUSTOM:{code}", tuple(inputs), tuple(outputs), version=version)
    writer = Writer()
    places = [writer.operand(operand) for operand in inputs]
    made = [writer.operand(operand) for operand in outputs]
    writer.operator(Code("CUSTOM", version, code), places, made)
    writer.graph.table.operators[-1].custom_options = options
    computed = [place for place, operand in zip(places, inputs, strict=True) if operand.kind == "computed"]
    return Company(probe, writer.ends(computed, made), 0)


def composites() -> Iterator[Company]:
    """Yield composites by name, whose subgraph is an addition; also the form of attention that XNNPACK recognizes."""
    for name, kind, rank in product(COMPOSITES, ("FLOAT32", "FLOAT16"), (4, 3, 2, 1)):
        one = (1, 2, 2, 4)[-rank:]
        for shapes in ((one,) * 3, (*(one,) * 3, (1, 1, 2, 2)), (one,) * 2, (one,)):
            if rank == 4 or len(shapes) < 4:
                yield _composite(name, tuple(Operand(kind, shape) for shape in shapes), Operand(kind, one))


def _composite(name: str, inputs: Sequence[Operand], output: Operand) -> Company:
    attributes = bytes(flexbuffers.Dumps({"scale": 0.5, "epsilon": 1e-5}))
    options = (
        ("name", name), ("decomposition_subgraph_index", 1), ("composite_attributes", attributes), ("version", 1),
    )  # fmt: skip
    table = "StableHLOCompositeOptions"
    probe = Probe("STABLEHLO_COMPOSITE", tuple(inputs), (output,), options, table, variadic=True)
    writer = Writer()
    places, made = [writer.operand(operand) for operand in inputs], writer.operand(output)
    writer.operator(Code("STABLEHLO_COMPOSITE"), places, [made], (table, options))
    writer.graph.ends(places, [made])
    inside = writer.build.graph("inside")
    sources = [inside.tensor(f"s{at}", operand.shape, operand.element) for at, operand in enumerate(inputs)]
    result = inside.tensor("r", output.shape, output.element)
    inside.operator("MUL", [sources[0], sources[0]], [result])
    inside.ends(sources, [result])
    return Company(probe, writer.build.to_bytes(), 0)


def blockwise() -> Iterator[Company]:
    """Yield matrix products and lookups with constants that have a scale for each block of 32."""
    names = ("fused_activation_function", "weights_format", "keep_num_dims", "asymmetric_quantize_inputs")
    options = tuple((name, 0) for name in names)
    left_out, bias, rows = (
        Operand("FLOAT32", (), "none"),
        Operand("FLOAT32", (8,), "constant"),
        Operand("INT32", (2,)),
    )
    for kind, name in product(("FLOAT32", "FLOAT16", "INT8/t"), ("INT4/b", "INT8/b", "INT2/b")):
        weights = Operand(name, (8, 64), "constant")
        for rank, more in product(range(1, 7), ((left_out,), (bias,), ())):
            before = (1,) * (rank - 2) + (2,) * (rank > 1)
            inputs, target = (Operand(kind, (*before, 64)), weights, *more), Operand(kind, (1 + (rank > 1), 8))
            for version in range(1, LAST_VERSION + 1) if rank == 2 else (1,):
                yield _blockwise(
                    Probe("FULLY_CONNECTED", inputs, (target,), options, "FullyConnectedOptions", version)
                )
        yield _blockwise(Probe("EMBEDDING_LOOKUP", (rows, weights), (Operand(kind, (2, 64)),)))
        yield _blockwise(Probe("DEQUANTIZE", (weights,), (Operand(kind, (8, 64)),), (), "DequantizeOptions"))


def _blockwise(probe: Probe) -> Company:
    writer = Writer()
    places = [
        _blocks(writer, operand) if operand.type.endswith("/b") else writer.operand(operand)
        for operand in probe.inputs
    ]
    made = [writer.operand(operand) for operand in probe.outputs]
    writer.operator(Code(probe.code, probe.version), places, made, (probe.table, probe.options))
    computed = [place for place, operand in zip(places, probe.inputs, strict=True) if operand.kind == "computed"]
    return Company(probe, writer.ends(computed, made), 0)


def _blocks(writer: Writer, operand: Operand) -> int:
    high, wide = operand.shape
    place = writer.operand(Operand("FLOAT16", (high, wide // 32), "constant"))
    plain = writer.operand(replace(operand, type=operand.element))
    details = Table("BlockwiseQuantization", scales=place, zero_points=-1, block_size=32)
    writer.graph.table.tensors[plain].quantization = Table("QuantizationParameters", details=details)
    return plain
