"""Make the models of this folder that a quantizer writes: int4 weights with a scale for each block of 32.

The scales of blocks are a tensor of their own, which the quantized tensor names by its index
(`BlockwiseQuantization.scales`). The float model is made by hand.

Run it with a Python that has ai-edge-quantizer 0.10.0 and circletools:

    python testdata/generate_quantized.py            # write every model, to `tflite`
    python testdata/generate_quantized.py --check    # write nothing, fail if a file would change
"""

from __future__ import annotations

import sys

from ai_edge_quantizer import quantizer, recipe
from generate_byhand import by_hand, random, sign
from model_files import Models, main

SIZES = (64, 64, 32, 32)


def float_model() -> bytes:
    """Return three FULLY_CONNECTED in a row, with a TANH between each two."""
    model = by_hand()
    graph = model.graph("main")
    x = first = graph.tensor("x", [1, SIZES[0]])
    for layer, size in enumerate(SIZES[1:]):
        weights = graph.constant(f"w{layer}", random(f"blockwise{layer}", size, SIZES[layer]))
        y = graph.tensor(f"y{layer}", [1, size])
        graph.operator("FULLY_CONNECTED", [x, weights, -1], [y])
        x = graph.tensor(f"z{layer}", [1, size])
        graph.operator("TANH", [y], [x])
    graph.ends([first], [x])
    sign(model, graph)
    return model.to_bytes()


def blockwise_int4() -> bytes:
    """Return the float model with int4 weights, quantized in blocks of 32."""
    tool = quantizer.Quantizer(float_model(), recipe.dynamic_wi4b32_afp32())
    return bytes(tool.quantize().quantized_model)


MODELS: Models = {"blockwise_int4": blockwise_int4}

if __name__ == "__main__":
    sys.exit(main(__doc__, "tflite", ".tflite", MODELS))
