"""Make the TFLite models of `testdata/tflite` with TensorFlow's converter, from small functions.

Run it with a Python that has tensorflow 2.21:

    python testdata/generate_tensorflow.py            # write every model
    python testdata/generate_tensorflow.py cnn scalar # write these two
    python testdata/generate_tensorflow.py --check    # write nothing, fail if a file would change

The weights are random, from a seed that belongs to the model; the same version of tensorflow gives the
same bytes every time. One thing had to be put right for that: with its switch for external buffers the
converter writes their contents in an order that changes from run to run (see `in_buffer_order`).
"""

from __future__ import annotations

import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from model_files import Models, main
from model_tails import append_zip, describe_model, in_buffer_order
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

MODELS: Models = {}
Random = np.random.Generator
FLOAT = tf.float32


def model(make: Callable[[Random], bytes]) -> Callable[[], bytes]:
    """Enter a function into the table of models, under its name, and give it random numbers of its own.

    A model `..._external` has the weights of the model it is named after.
    """
    seed = zlib.crc32(make.__name__.removesuffix("_external").encode())

    def seeded() -> bytes:
        return bytes(make(np.random.default_rng(seed)))

    MODELS[make.__name__] = seeded
    return seeded


def spec(*shape: int | None, dtype: Any = FLOAT, name: str = "x") -> Any:
    return tf.TensorSpec(shape, dtype, name)


def weight(random: Random, *shape: int) -> Any:
    return tf.constant(random.normal(0, 0.3, shape), FLOAT)


def convert(function: Callable[..., Any], *inputs: Any, **options: Any) -> bytes:
    """Convert one function; `options` are attributes of the converter."""
    module = tf.Module()
    module.main = tf.function(function, input_signature=inputs)
    return convert_module(module, {"serving_default": module.main}, **options)


def convert_module(module: Any, signatures: dict[str, Any], **options: Any) -> bytes:
    """Convert a module with one signature or more, by way of a saved model in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(signatures))
        for name, value in options.items():
            setattr(converter, name, value)
        binary: bytes = converter.convert()
    return binary


# ---------------------------------------------------------------------------------------------------
# Everyday networks
# ---------------------------------------------------------------------------------------------------


def _cnn(random: Random, **options: Any) -> bytes:
    first, second = weight(random, 3, 3, 3, 4), weight(random, 3, 3, 4, 8)
    bias, dense = weight(random, 8), weight(random, 8 * 4 * 4, 5)

    def function(image: Any) -> dict[str, Any]:
        x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(image, first, 1, "SAME")), 2, 2, "VALID")
        x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, second, 1, "SAME") + bias), 2, 2, "VALID")
        return {"scores": tf.nn.softmax(tf.reshape(x, [1, 8 * 4 * 4]) @ dense)}

    return convert(function, spec(1, 16, 16, 3, name="image"), **options)


@model
def cnn(random: Random) -> bytes:
    return _cnn(random)


@model
def cnn_int8(random: Random) -> bytes:
    def samples() -> Iterator[list[Any]]:
        for _ in range(8):
            yield [random.normal(0, 1, (1, 16, 16, 3)).astype(np.float32)]

    return _cnn(
        random,
        optimizations=[tf.lite.Optimize.DEFAULT],
        representative_dataset=samples,
        inference_input_type=tf.int8,
        inference_output_type=tf.int8,
    )


@model
def cnn_float16(random: Random) -> bytes:
    target = tf.lite.TargetSpec(supported_types=[tf.float16])
    return _cnn(random, optimizations=[tf.lite.Optimize.DEFAULT], target_spec=target)


@model
def cnn_external(random: Random) -> bytes:
    binary = _cnn(random, _experimental_use_buffer_offset=True)
    return in_buffer_order(binary, schema.Model.GetRootAs(binary))


@model
def transformer_block(random: Random) -> bytes:
    length, width, heads = 6, 16, 2
    names = ("q", "k", "v", "out")
    w = {name: weight(random, width, width) for name in names}
    up, down = weight(random, width, 2 * width), weight(random, 2 * width, width)

    def norm(x: Any) -> Any:
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        return centred * tf.math.rsqrt(tf.reduce_mean(centred * centred, -1, keepdims=True) + 1e-5)

    def split(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, [1, length, heads, width // heads]), [0, 2, 1, 3])

    def attention(x: Any) -> Any:
        q, k, v = (split(tf.matmul(x, w[name])) for name in "qkv")
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5)
        mixed = tf.transpose(tf.matmul(scores, v), [0, 2, 1, 3])
        return tf.matmul(tf.reshape(mixed, [1, length, width]), w["out"])

    def function(x: Any) -> dict[str, Any]:
        x = x + attention(norm(x))
        return {"y": x + tf.matmul(tf.nn.gelu(tf.matmul(norm(x), up)), down)}

    return convert(function, spec(1, length, width))


@model
def dynamic_shape(random: Random) -> bytes:
    w = weight(random, 4, 3)

    def function(x: Any) -> dict[str, Any]:
        return {"best": tf.reduce_max(tf.nn.relu(tf.matmul(x, w)), axis=1)}

    return convert(function, spec(None, None, 4))


@model
def sparse(random: Random) -> bytes:
    dense = random.normal(0, 0.3, (16, 16)).astype(np.float32)
    dense[random.random((16, 16)) < 0.9] = 0

    def function(x: Any) -> dict[str, Any]:
        return {"y": tf.matmul(x, tf.constant(dense))}

    return convert(function, spec(1, 16), optimizations=[tf.lite.Optimize.EXPERIMENTAL_SPARSITY])


# ---------------------------------------------------------------------------------------------------
# Several subgraphs
# ---------------------------------------------------------------------------------------------------


@model
def while_loop(random: Random) -> bytes:
    step = weight(random, 4)

    def function(x: Any, n: Any) -> dict[str, Any]:
        _, y = tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, tf.tanh(y) + step), (0, x))
        return {"y": y}

    return convert(function, spec(1, 4), spec(dtype=tf.int32, name="n"))


@model
def while_nested(random: Random) -> bytes:
    """Two loops, one in the other; `keep` goes through both unchanged and comes out as an output."""
    step = weight(random, 4)

    def inner(y: Any, keep: Any) -> Any:
        return tf.while_loop(lambda j, *_: j < 2, lambda j, y, keep: (j + 1, y * keep, keep), (0, y, keep))

    def function(x: Any, keep: Any) -> dict[str, Any]:
        def body(i: Any, y: Any, keep: Any) -> Any:
            _, y, keep = inner(y, keep)
            return i + 1, y + step, keep

        _, y, kept = tf.while_loop(lambda i, *_: i < 3, body, (0, x, keep))
        return {"y": y, "kept": kept}

    return convert(function, spec(1, 4), spec(1, 4, name="keep"))


@model
def if_cond(random: Random) -> bytes:
    left, right = weight(random, 4, 4), weight(random, 4, 4)

    def function(x: Any, flag: Any) -> dict[str, Any]:
        return {"y": tf.cond(flag, lambda: tf.matmul(x, left), lambda: tf.nn.relu(tf.matmul(x, right)))}

    return convert(function, spec(1, 4), spec(dtype=tf.bool, name="flag"))


@model
def two_signatures(random: Random) -> bytes:
    """Two functions, and so two subgraphs, which share a buffer of weights."""
    w = weight(random, 6, 3)
    module = tf.Module()

    def scores(x: Any) -> dict[str, Any]:
        return {"scores": tf.nn.softmax(tf.matmul(x, w))}

    def best(x: Any) -> dict[str, Any]:
        return {"best": tf.argmax(tf.matmul(x, w), axis=1, output_type=tf.int32)}

    module.scores = tf.function(scores, input_signature=[spec(1, 6)])
    module.best = tf.function(best, input_signature=[spec(1, 6)])
    return convert_module(module, {"scores": module.scores, "best": module.best})


class Counter(tf.Module):  # type: ignore[misc]
    """Adds what it gets to a variable, and can be set to nothing again."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable(tf.fill([4], 0.5), name="total")

    @tf.function(input_signature=[spec(4)])  # type: ignore[untyped-decorator]
    def add(self, x: Any) -> dict[str, Any]:
        self.total.assign(self.total + x)
        return {"total": self.total.read_value()}

    @tf.function(input_signature=[spec(4)])  # type: ignore[untyped-decorator]
    def reset(self, x: Any) -> dict[str, Any]:
        self.total.assign(x)
        return {"total": self.total.read_value()}


@model
def variable(random: Random) -> bytes:
    module = Counter()
    signatures = {"add": module.add, "reset": module.reset}
    return convert_module(module, signatures, experimental_enable_resource_variables=True)


@model
def hashtable(random: Random) -> bytes:
    module = tf.Module()
    words = tf.lookup.KeyValueTensorInitializer(["one", "two", "three"], np.array([1, 2, 3], np.int64))
    module.table = tf.lookup.StaticHashTable(words, default_value=-1)

    def function(words: Any) -> dict[str, Any]:
        return {"ids": module.table.lookup(words)}

    module.main = tf.function(function, input_signature=[spec(3, dtype=tf.string, name="words")])
    return convert_module(module, {"serving_default": module.main})


# ---------------------------------------------------------------------------------------------------
# Shapes of a model's interface, and types
# ---------------------------------------------------------------------------------------------------


@model
def output_twice(random: Random) -> bytes:
    w = weight(random, 4, 4)

    def function(x: Any) -> dict[str, Any]:
        y = tf.nn.relu(tf.matmul(x, w))
        return {"first": y, "second": y, "third": tf.tanh(y)}

    return convert(function, spec(1, 4))


@model
def input_as_output(random: Random) -> bytes:
    w = weight(random, 4, 4)

    def function(x: Any) -> dict[str, Any]:
        return {"same": x, "y": tf.nn.relu(tf.matmul(x, w))}

    return convert(function, spec(1, 4))


@model
def constant_output(random: Random) -> bytes:
    w, anchors = weight(random, 4, 4), weight(random, 2, 3)

    def function(x: Any) -> dict[str, Any]:
        return {"y": tf.matmul(x, w), "anchors": anchors}

    return convert(function, spec(1, 4))


@model
def scalar(random: Random) -> bytes:
    def function(x: Any) -> dict[str, Any]:
        return {"y": tf.sin(x) * 2.0 + 1.0}

    return convert(function, spec())


@model
def bool_int64(random: Random) -> bytes:
    def function(a: Any, b: Any) -> dict[str, Any]:
        larger = tf.greater(a, b)
        return {"larger": larger, "all": tf.reduce_all(larger), "sum": a + b}

    return convert(function, spec(2, 3, dtype=tf.int64, name="a"), spec(3, dtype=tf.int64, name="b"))


# ---------------------------------------------------------------------------------------------------
# Data outside the graph
# ---------------------------------------------------------------------------------------------------


@model
def debug_metadata(random: Random) -> bytes:
    w = weight(random, 4, 4)

    def function(x: Any) -> dict[str, Any]:
        return {"y": tf.tanh(tf.matmul(x, w)) + 1.0}

    return convert(function, spec(1, 4), serialize_debug_metadata=True)


@model
def custom_op(random: Random) -> bytes:
    """A custom operator that LiteRT brings along, with its custom options."""

    def function(sound: Any) -> dict[str, Any]:
        spectrum = tf.raw_ops.AudioSpectrogram(input=sound * 2.0, window_size=8, stride=4)
        return {"spectrum": tf.sqrt(spectrum)}

    return convert(function, spec(20, 1, name="sound"), allow_custom_ops=True)


@model
def flex_op(random: Random) -> bytes:
    """An operator that only the whole of TensorFlow has; its custom options hold its definition."""
    w = weight(random, 4, 4)

    def function(x: Any) -> dict[str, Any]:
        return {"y": tf.sinh(tf.matmul(x, w))}

    operators = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    return convert(function, spec(1, 4), target_spec=tf.lite.TargetSpec(supported_ops=operators))


def _with_metadata(random: Random) -> bytes:
    w = weight(random, 4, 3)

    def function(x: Any) -> dict[str, Any]:
        return {"scores": tf.nn.softmax(tf.matmul(x, w))}

    tree = flatbuffer_utils.convert_bytearray_to_object(bytearray(convert(function, spec(1, 4))))
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(describe_model("colours", ["labels.txt"]), np.uint8)
    entry.name, entry.buffer = "TFLITE_METADATA", len(tree.buffers)
    tree.buffers.append(buffer)
    tree.metadata.append(entry)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(tree))


LABELS = {"labels.txt": b"red\ngreen\nblue\n"}


@model
def zip_tail(random: Random) -> bytes:
    return append_zip(_with_metadata(random), LABELS)


@model
def zip_tail_joined(random: Random) -> bytes:
    return _with_metadata(random) + append_zip(b"", LABELS)


if __name__ == "__main__":
    sys.exit(main(__doc__, "tflite", ".tflite", MODELS))
