"""Networks of five kinds, with random depth and width."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from tools.tracking.graphs import Net, Operator, Value


def mobile(net: Net, blocks: int = 0) -> None:
    """Make a network of depthwise blocks; by default, their number is random."""
    x, width = net.input(1, 32, 32, 3), net.random.choice([8, 12, 16])
    net.scope = "mobile/stem"
    x = net.act(net.batch_norm(net.conv(x, width, 3, 2)), "RELU6")
    for block in range(blocks or net.random.randint(2, 7)):
        net.scope = f"mobile/block_{block}"
        y = x
        if net.random.random() < 0.5:
            y = net.act(net.batch_norm(net.conv(y, 2 * width, 1)), "RELU6")
        if net.random.random() < 0.3:
            pads = net.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), "c")
            y = net.add("PAD", [y, pads], y.shape)
        y = net.conv(net.any_act(net.depthwise(y)), width, 1)
        if net.random.random() < 0.5:
            y = net.batch_norm(y)
        x = net.add("ADD", [x, y], x.shape) if net.random.random() < 0.7 else y
    net.scope = "mobile/head"
    x = net.add("MEAN", [x, net.integers(1, 2)], (x.shape[0], x.shape[-1]))
    net.outputs = [net.act(net.dense(x, 10), "SOFTMAX")]


def transformer(net: Net, layers: int = 0) -> None:
    """Make an encoder."""
    length, width, heads = net.random.choice([8, 16]), net.random.choice([32, 48]), 4
    depth = width // heads
    x = net.input(1, length, width)

    def head(h: Value) -> Value:
        y = net.add(
            "RESHAPE", [net.dense(h, width), net.integers(1, length, heads, depth)], (1, length, heads, depth)
        )
        return net.add("TRANSPOSE", [y, net.integers(0, 2, 1, 3)], (1, heads, length, depth))

    for layer in range(layers or net.random.randint(1, 4)):
        net.scope = f"enc/layers.{layer}"
        h = net.layer_norm(x)
        q, k, v = head(h), head(h), head(h)
        s = net.add("BATCH_MATMUL", [q, k], (1, heads, length, length), adj_y=True)
        s = net.act(net.add("MUL", [s, net.scalar(depth**-0.5)], s.shape), "SOFTMAX")
        o = net.add("BATCH_MATMUL", [s, v], (1, heads, length, depth))
        o = net.add("TRANSPOSE", [o, net.integers(0, 2, 1, 3)], (1, length, heads, depth))
        o = net.add("RESHAPE", [o, net.integers(1, length, width)], (1, length, width))
        x = net.add("ADD", [x, net.dense(o, width)], x.shape)
        h = net.dense(net.layer_norm(x), 2 * width)
        h = net.gelu(h) if net.random.random() < 0.7 else net.act(h, "RELU")
        x = net.add("ADD", [x, net.dense(h, width)], x.shape)
    net.scope = "enc/head"
    net.outputs = [net.dense(net.layer_norm(x), net.random.choice([10, 20]))]


def unet(net: Net) -> None:
    """Make a network with skip connections."""
    x, width, skips = net.input(1, 32, 32, 3), 6, list[Value]()
    depth = net.random.randint(1, 3)
    for level in range(depth):
        net.scope = f"unet/down{level}"
        x = net.any_act(net.conv(net.any_act(net.conv(x, width)), width))
        skips.append(x)
        n, h, w, c = x.shape
        sizes = {"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
        x = net.add("MAX_POOL_2D", [x], (n, h // 2, w // 2, c), **sizes)
        width *= 2
    net.scope = "unet/mid"
    x = net.act(net.conv(x, width), "RELU")
    for level in reversed(range(depth)):
        net.scope = f"unet/up{level}"
        width //= 2
        n, h, w, c = x.shape
        x = net.add("RESIZE_BILINEAR", [x, net.integers(2 * h, 2 * w)], (n, 2 * h, 2 * w, c))
        wide = (*x.shape[:3], c + skips[level].shape[3])
        x = net.add("CONCATENATION", [x, skips[level]], wide, axis=3)
        x = net.any_act(net.conv(net.any_act(net.conv(x, width)), width))
    net.scope = "unet/out"
    net.outputs = [net.act(net.conv(x, 2, 1), "LOGISTIC")]


def recurrent(net: Net) -> None:
    """Make an unrolled LSTM, in which every step has the same weights."""
    steps, width = net.random.randint(3, 7), net.random.choice([8, 12])
    x = net.input(1, steps, width)
    ones = [
        net.add(
            "STRIDED_SLICE",
            [x, net.integers(0, step, 0), net.integers(1, step + 1, width), net.integers(1, 1, 1)],
            (1, width),
            shrink_axis_mask=2,
        )
        for step in range(steps)
    ]
    of_input, of_state = net.dense_weights(width, 4 * width), net.dense_weights(width, 4 * width)
    hidden: Value | None = None
    cell: Value | None = None
    for step in range(steps):
        net.scope = f"rnn/step{step}"
        gates = net.dense(ones[step], 4 * width, of_input)
        if hidden is not None:
            gates = net.add("ADD", [gates, net.dense(hidden, 4 * width, of_state)], gates.shape)
        parts = [Value(net.name("split"), (1, width)) for _ in range(4)]
        axis = net.constant(np.array(1, np.int32), "c")
        net.operators.append(Operator("SPLIT", [axis, gates], parts, {"num_splits": 4}))
        codes = ("LOGISTIC", "LOGISTIC", "TANH", "LOGISTIC")
        i, f, g, o = (net.act(part, code) for part, code in zip(parts, codes, strict=True))
        new = net.add("MUL", [i, g], (1, width))
        cell = new if cell is None else net.add("ADD", [net.add("MUL", [f, cell], (1, width)), new], (1, width))
        hidden = net.add("MUL", [o, net.act(cell, "TANH")], (1, width))
    net.scope = "rnn/head"
    net.outputs = [net.dense(hidden or x, 5)]


def towers(net: Net) -> None:
    """Make a network with two inputs and several outputs, whose first layers are tied."""
    a, b = net.input(1, 24), net.input(1, 24)
    net.scope = "two/tower"
    tied = net.dense_weights(24, 16)
    x, y = (net.any_act(net.dense(value, 16, tied)) for value in (a, b))
    for layer in range(net.random.randint(1, 5)):
        net.scope = f"two/mlp{layer}"
        x, y = net.any_act(net.dense(x, 16)), net.any_act(net.batch_norm(net.dense(y, 16)))
    net.scope = "two/out"
    z = net.add("CONCATENATION", [x, y], (1, 32), axis=1)
    for _ in range(net.random.randint(1, 3)):
        z = net.any_act(net.dense(z, 32))
    outputs = [net.dense(z, 4), net.act(net.dense(z, 1), "LOGISTIC"), net.add("SUB", [x, y], (1, 16))]
    net.outputs = outputs[: net.random.randint(1, 3)]
    net.prune()


NETS: tuple[Callable[[Net], None], ...] = (mobile, transformer, unet, recurrent, towers)


def make(seed: int) -> Net:
    """Return a random network."""
    chosen = random.Random(seed)
    net = Net(seed, chosen.choice(["path", "path", "plain", "number"]))
    chosen.choice(NETS)(net)
    return net
