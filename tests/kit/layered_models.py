"""Random networks of layers that XNNPACK takes, with some that it does not, in which one layer can be enlarged."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from tests.kit.build import Build, Graph

_SIDE, _CHANNELS = 24, 16
_ACTIVATIONS = (0, 0, 1, 3)  # none, RELU, RELU6
_LARGER = {1: 7, 3: 9}
_SIZE = (1, _SIDE, _SIDE, _CHANNELS)


@dataclass
class Network:
    """A network in the making; `weighted` has the operators that can be enlarged."""

    seed: int
    enlarged: int | None
    weighted: list[int] = field(default_factory=list)
    _graph: Graph = field(init=False)
    _choose: random.Random = field(init=False)

    def to_bytes(self) -> bytes:
        """Return the model."""
        build = Build()
        self._graph = graph = build.graph()
        self._choose = choose = random.Random(self.seed)  # noqa: S311 - a seed for a test
        self.weighted.clear()
        first = value = graph.tensor("in", _SIZE)
        others = [value]
        for _ in range(choose.randint(8, 24)):
            value = self._layer(value, others)
            others.append(value)
        graph.ends([first], [value])
        return build.to_bytes()

    def _layer(self, value: int, others: list[int]) -> int:
        graph, choose = self._graph, self._choose
        kind = choose.choice(
            ("conv", "conv", "depthwise", "add", "alone", "reshape", "pad", "pow", "concat", "scale")
        )
        out = graph.tensor(f"t{len(graph.table.tensors)}", _SIZE)
        if kind == "add":
            graph.operator(
                "ADD", [value, choose.choice(others)], [out], fused_activation_function=choose.choice(_ACTIVATIONS)
            )
        elif kind == "alone":
            graph.operator(choose.choice(("RELU", "LOGISTIC", "ABS", "HARD_SWISH", "TANH")), [value], [out], None)
        elif kind == "scale":
            graph.operator("MUL", [value, graph.constant("s", np.full(_CHANNELS, 0.5, np.float32))], [out])
        elif kind == "pow":  # XNNPACK does not take it
            graph.operator("POW", [value, graph.constant("e", np.full(1, 3, np.float32))], [out])
        elif kind == "reshape":
            flat = graph.tensor(f"{out}.flat", (1, _SIDE * _SIDE, _CHANNELS))
            for source, target, shape in ((value, flat, (1, -1, _CHANNELS)), (flat, out, _SIZE)):
                graph.operator("RESHAPE", [source, graph.constant("shape", np.array(shape, np.int32))], [target])
        elif kind == "concat":
            both = graph.tensor(f"{out}.both", (*_SIZE[:3], 2 * _CHANNELS))
            graph.operator("CONCATENATION", [value, choose.choice(others)], [both], axis=3)
            self._weighted("CONV_2D", both, out, 2 * _CHANNELS, 1)
        else:
            code = "DEPTHWISE_CONV_2D" if kind == "depthwise" else "CONV_2D"
            size = choose.choice((1, 3)) if kind == "conv" else 3
            self._weighted(code, value, out, _CHANNELS, size, padded=kind == "pad")
        return out

    def _weighted(self, code: str, value: int, out: int, channels: int, size: int, *, padded: bool = False) -> None:
        graph = self._graph
        at = len(graph.table.operators) + padded
        self.weighted.append(at)
        size = _LARGER[size] if at == self.enlarged else size
        if padded:
            width = size // 2
            wide = graph.tensor(f"{out}.wide", (1, _SIDE + 2 * width, _SIDE + 2 * width, channels))
            widths = graph.constant("widths", np.array([[0, 0], [width] * 2, [width] * 2, [0, 0]], np.int32))
            graph.operator("PAD", [value, widths], [wide])
            value = wide
        depthwise = code == "DEPTHWISE_CONV_2D"
        shape = (1, size, size, channels) if depthwise else (_CHANNELS, size, size, channels)
        weights = graph.constant("w", np.full(shape, 0.01, np.float32))
        bias = graph.constant("b", np.zeros(_CHANNELS, np.float32))
        options = {"depth_multiplier": 1} if depthwise else dict[str, int]()
        fused = self._choose.choice(_ACTIVATIONS)
        table = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        options |= {"stride_w": 1, "stride_h": 1, "padding": int(padded), "fused_activation_function": fused}
        graph.operator(code, [value, weights, bias], [out], table, **options)
