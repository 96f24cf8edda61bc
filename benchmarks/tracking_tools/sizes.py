"""Convert Keras networks with TensorFlow at several batch sizes and resolutions.

    python benchmarks/tracking_tools/sizes.py DIR FROM:TO

Run it with a Python that has tensorflow. The same network with the same weights is converted at each size, also with
quantization. If the converter produces the same sequence of operator codes and input counts, operators correspond in
order; otherwise, no pair is written.
"""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

layers = tf.keras.layers
SIZES = {"b2": (2, 32, 32), "b4": (4, 32, 32), "b8": (8, 32, 32), "r24": (1, 24, 24), "r48": (1, 48, 48)}
SIZES |= {"r64": (1, 64, 40), "b4r48": (4, 48, 48)}
ACTIVATIONS = ("relu", "relu6", "hard_swish", "swish", "gelu", "tanh", "sigmoid")


def chain(chosen: random.Random, x: Any) -> Any:
    """A chain of convolutions."""
    for _ in range(chosen.randint(2, 6)):
        x = layers.Conv2D(8, chosen.choice([1, 3]), padding="same", activation=chosen.choice(ACTIVATIONS))(x)
    return x


def mobile(chosen: random.Random, x: Any) -> Any:
    """Depthwise blocks."""
    x = layers.Conv2D(12, 3, 2, padding="same")(x)
    for _ in range(chosen.randint(2, 5)):
        x = layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x))
        x = layers.Activation(chosen.choice(ACTIVATIONS))(x)
        x = layers.BatchNormalization()(layers.Conv2D(12, 1, use_bias=False)(x))
    return x


def residual(chosen: random.Random, x: Any) -> Any:
    """Blocks with shortcuts."""
    x = layers.Conv2D(8, 3, padding="same")(x)
    for _ in range(chosen.randint(2, 4)):
        y = layers.Conv2D(8, 3, padding="same", activation=chosen.choice(ACTIVATIONS))(x)
        y = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(y))
        x = layers.Activation(chosen.choice(ACTIVATIONS))(layers.Add()([x, y]))
    return x


def unet(chosen: random.Random, x: Any) -> Any:
    """One level down and up."""
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(16, 3, padding="same", activation=chosen.choice(ACTIVATIONS))(layers.MaxPool2D()(a))
    up = layers.Conv2DTranspose(8, 2, 2) if chosen.random() < 0.5 else layers.UpSampling2D(interpolation="bilinear")
    return layers.Conv2D(8, 3, padding="same")(layers.Concatenate()([a, up(b)]))


BODIES: tuple[Callable[[random.Random, Any], Any], ...] = (chain, mobile, residual, unet)


def build(seed: int, size: tuple[int, int, int]) -> Any:
    """Return the network for a seed."""
    chosen, numbers = random.Random(seed), np.random.default_rng(seed)
    tf.keras.backend.clear_session()
    x = start = tf.keras.Input((*size[1:], 3), batch_size=size[0])
    x = layers.GlobalAveragePooling2D()(chosen.choice(BODIES)(chosen, x))
    x = layers.Dense(16, activation=chosen.choice(ACTIVATIONS))(x)
    model = tf.keras.Model(start, layers.Dense(10, activation="softmax")(x))
    weights = [(variable.path, numbers.normal(size=variable.shape) * 0.3) for variable in model.weights]
    model.set_weights([np.abs(w) + 0.5 if "gamma" in p or "variance" in p else w for p, w in weights])
    return model


def converted(model: Any, how: str) -> bytes:
    """Return the network as TFLite: float, dynamic or static."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if how != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if how == "static":
        shape = tuple(model.inputs[0].shape)
        converter.representative_dataset = lambda: ([np.full(shape, v, np.float32)] for v in (-1, 1))
    return bytes(converter.convert())


def sequence(data: bytes) -> list[list[tuple[int, int]]]:
    """Return the code and the number of inputs of each operator."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    return [[(codes[o.opcodeIndex], len(o.inputs)) for o in s.operators] for s in model.subgraphs]


def main(directory: Path, seeds: range) -> None:
    """Write all pairs."""
    directory.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        how = random.Random(seed + 7).choice(["float", "float", "dynamic", "static"])
        before = converted(build(seed, (1, 32, 32)), how)
        counts = [len(operators) for operators in sequence(before)]
        truth = [[[sum(counts[:at]) + index] for index in range(count)] for at, count in enumerate(counts)]
        for name, size in SIZES.items():
            after = converted(build(seed, size), how)
            if sequence(before) != sequence(after):
                print(f"{seed}, {name}: another sequence of operators")
                continue
            stem = f"{directory}/s{seed}.{name}"
            Path(f"{stem}.before.tflite").write_bytes(before)
            Path(f"{stem}.after.tflite").write_bytes(after)
            Path(f"{stem}.json").write_text(json.dumps({"operators": truth, "removed": []}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), range(*map(int, sys.argv[2].split(":"))))
