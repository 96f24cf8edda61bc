"""Quantize models with ai-edge-quantizer, and record which operators correspond.

    python benchmarks/tracking_tools/quantize.py DIR MODEL...

Run it with a Python that has ai-edge-quantizer. For each model and recipe it writes DIR/NAME.before.tflite,
.after.tflite and .json. The truth comes from the tool itself: in advance, each operator's `debug_metadata_index` is
set to its number. The quantizer changes the model's objects and preserves the field, so inserted operators lack it.
Recipes that need calibration get one run on pseudo-random inputs, since the values do not matter here.
"""

import json
import logging
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe

RECIPES = {
    "dynamic8": recipe.dynamic_wi8_afp32,
    "dynamic4": recipe.dynamic_wi4_afp32,
    "weights8": recipe.weight_only_wi8_afp32,
    "weights4": recipe.weight_only_wi4_afp32,
    "static8": recipe.static_wi8_ai8,
    "static16": recipe.static_wi8_ai16,
}


def tagged(data: bytes) -> tuple[bytes, int]:
    """Return a model whose operators are numbered across all subgraphs, and the number of operators."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    operators = [operator for subgraph in model.subgraphs for operator in subgraph.operators or ()]
    for number, operator in enumerate(operators):
        operator.debugMetadataIndex = number
    for buffer in model.buffers or ():  # positions in the file would no longer be valid
        if buffer.offset > 1:
            buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()), len(operators)


def tags(data: bytes, count: int) -> list[list[list[int]]]:
    """Return the number of each operator of each subgraph, as a list with one item or none."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    return [
        [
            [operator.debugMetadataIndex] if 0 <= operator.debugMetadataIndex < count else []
            for operator in subgraph.operators or ()
        ]
        for subgraph in model.subgraphs
    ]


def calibration(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return random inputs for every signature."""
    interpreter, random = Interpreter(model_path=str(path)), np.random.default_rng(0)
    data = {}
    for key in interpreter.get_signature_list():
        inputs = {}
        for name, details in interpreter.get_signature_runner(key).get_input_details().items():
            shape = [max(size, 1) for size in details["shape"]]
            real = np.issubdtype(details["dtype"], np.floating)
            inputs[name] = (random.normal(size=shape) if real else np.ones(shape)).astype(details["dtype"])
        data[key] = [inputs]
    return data


def quantize(before: Path, recipe_name: str) -> bytes:
    """Return the quantized model."""
    tool = quantizer.Quantizer(str(before), RECIPES[recipe_name]())
    calibrated = tool.calibrate(calibration(before)) if tool.need_calibration else None
    return bytes(tool.quantize(calibrated).quantized_model)


def make(directory: Path, path: Path, recipe_name: str) -> None:
    """Write the pair for a model and a recipe."""
    before, count = tagged(path.read_bytes())
    stem = f"{path.stem}.{recipe_name}"
    source = directory / f"{stem}.before.tflite"
    source.write_bytes(before)
    try:
        after = quantize(source, recipe_name)
        truth = {"operators": tags(after, count), "removed": []}
    except Exception:
        source.unlink()
        raise
    (directory / f"{stem}.after.tflite").write_bytes(after)
    (directory / f"{stem}.json").write_text(json.dumps(truth))


def main(directory: Path, models: list[Path]) -> None:
    """Write all pairs that the quantizer can make, each in a separate process, since some models crash it."""
    directory.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.CRITICAL)
    for path in models:
        for name in RECIPES:
            child = multiprocessing.get_context("fork").Process(target=make, args=(directory, path, name))
            child.start()
            child.join()
            if child.exitcode:
                (directory / f"{path.stem}.{name}.before.tflite").unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
