"""Make `origins/litert_torch.int8.tflite`: a network quantized with a calibration that is wrong for one layer.

    python testdata/generate_wrong.py            # ai-edge-quantizer 0.10.0

The network is `litert_torch.tflite` beside it. The range of one convolution is a quarter of what its values need, as
when the data for the calibration does not reach it: the int8 model cuts those values off.
"""

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe

HERE = Path(__file__).resolve().parent / "origins"
FLOAT = HERE / "litert_torch.tflite"
LAYER = "__main__.Net/__main__.Cell_1;;"  # with which the name of its result begins


def main() -> None:
    """Calibrate with random inputs, spoil the range of a layer, and quantize."""
    interpreter = Interpreter(str(FLOAT))
    rng = np.random.default_rng(0)
    shapes = {
        key: {
            name: detail["shape"]
            for name, detail in interpreter.get_signature_runner(key).get_input_details().items()
        }
        for key in interpreter.get_signature_list()
    }
    data = {
        key: [
            {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in inputs.items()} for _ in range(200)
        ]
        for key, inputs in shapes.items()
    }
    tool = quantizer.Quantizer(str(FLOAT), recipe.static_wi8_ai8())
    ranges = tool.calibrate(data)
    for name in ranges:
        if name.startswith(LAYER):
            ranges[name] = {key: value / 4 for key, value in ranges[name].items()}
    (HERE / "litert_torch.int8.tflite").write_bytes(bytes(tool.quantize(ranges).quantized_model))


if __name__ == "__main__":
    main()
