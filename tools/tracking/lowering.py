"""More changes that tools make: inserting, removing, splitting, duplicating, quantizing (see `rewrites`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.tracking.graphs import Net, Operator, Shape, Value
from tools.tracking.rewrites import Removed

EACH_ELEMENT = ("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH")
CLAMPS = ("MINIMUM", "MAXIMUM")


def split_channels(net: Net) -> None:
    """Split some weighted operators into two halves, and concatenate the results."""
    for operator in list(net.operators):
        made = operator.outputs[0]
        channels = made.shape[-1]
        if operator.code not in ("FULLY_CONNECTED", "CONV_2D") or channels < 4 or net.random.random() > 0.3:
            continue
        if len(net.users()[operator.inputs[1]]) > 1:
            continue
        parts = []
        for half in (slice(0, channels // 2), slice(channels // 2, channels)):
            constants = [net.constant(v.data[half]) for v in operator.inputs[1:] if v.data is not None]
            part = Value(net.name("part"), (*made.shape[:-1], constants[1].shape[0]))
            new = Operator(operator.code, [operator.inputs[0], *constants], [part], dict(operator.options))
            parts.append(new)
        joined = Operator("CONCATENATION", [p.outputs[0] for p in parts], [made], {"axis": len(made.shape) - 1})
        _take_the_place(net, operator, [*parts, joined])


def decompose(net: Net) -> None:
    """Decompose SOFTMAX and HARD_SWISH, and turn some biases into separate operators."""
    for operator in list(net.operators):
        x, made = operator.inputs[0], operator.outputs[0]

        def new(
            code: str, inputs: list[Value], shape: Shape = made.shape, out: Value | None = None, **options: Any
        ) -> Operator:
            return Operator(code, inputs, [out or Value(net.name(code), shape)], options)

        if operator.code == "SOFTMAX" and net.random.random() < 0.7:
            powers = new("EXP", [x])
            axis = net.integers(len(made.shape) - 1)
            total = new("SUM", [powers.outputs[0], axis], (*made.shape[:-1], 1), keep_dims=True)
            ops = [powers, total, new("DIV", [powers.outputs[0], total.outputs[0]], out=made)]
        elif operator.code == "HARD_SWISH":
            more = new("ADD", [x, net.scalar(3)], fused_activation_function="RELU6")
            share = new("MUL", [more.outputs[0], net.scalar(1 / 6)])
            ops = [more, share, new("MUL", [x, share.outputs[0]], out=made)]
        elif operator.is_weighted and operator.activation == "NONE" and net.random.random() < 0.3:
            bias = operator.inputs[2]
            zero = net.constant(np.zeros(bias.shape, np.float32))
            bare = new(operator.code, [x, operator.inputs[1], zero], **operator.options)
            ops = [bare, new("ADD", [bare.outputs[0], bias], out=made)]
        else:
            continue
        _take_the_place(net, operator, ops)


def write_clamps(net: Net) -> None:
    """Replace RELU and RELU6 by maxima and minima with constants."""
    for operator in list(net.operators):
        if operator.code in ("RELU", "RELU6"):
            (x,), (made,) = operator.inputs, operator.outputs
            last = "MINIMUM" if operator.code == "RELU6" else "MAXIMUM"
            ops = [Operator(last, [x, net.scalar(6.0 if operator.code == "RELU6" else 0.0)], [made])]
            if operator.code == "RELU6":
                inner = Value(net.name("MAXIMUM"), x.shape)
                ops.insert(0, Operator("MAXIMUM", [x, net.scalar(0.0)], [inner]))
                ops[1].inputs[0] = inner
            _take_the_place(net, operator, ops)


def read_clamps(net: Net) -> None:
    """Replace maxima and minima with constants by RELU and RELU6."""
    for operator in list(net.operators):
        x = operator.inputs[0]
        before = net.makers().get(x)
        if operator.code == "MINIMUM" and before is not None and before.code == "MAXIMUM":
            if len(net.users()[x]) == 1:
                fused = Operator("RELU6", [before.inputs[0]], operator.outputs, {}, before.sources | operator.sources)
                net.put(operator, [fused])
                net.operators.remove(before)
        elif operator.code == "MAXIMUM" and not any(u.code == "MINIMUM" for u, _ in net.users()[operator.outputs[0]]):
            _take_the_place(net, operator, [Operator("RELU", [x], operator.outputs)])


def double(net: Net) -> None:
    """Duplicate some operators for each reader of their results, with the weights in separate buffers."""
    for operator in list(net.operators):
        users = net.users()[operator.outputs[0]]
        if len(operator.outputs) == 1 and len(users) > 1 and operator.outputs[0] not in net.outputs:
            twins = [operator]
            for user, slot in users[1:]:
                if net.random.random() < 0.5:
                    made = Value(net.name(operator.code), operator.outputs[0].shape)
                    sources, options = set(operator.sources), dict(operator.options)
                    twins.append(Operator(operator.code, list(operator.inputs), [made], options, sources))
                    user.inputs[slot] = made
            net.put(operator, twins)


def merge_equal(net: Net) -> None:
    """Merge operators that compute the same from the same inputs; the remaining one has the sources of all."""
    seen: dict[tuple[Any, ...], Operator] = {}
    for operator in list(net.operators):
        key = (operator.code, tuple(map(id, operator.inputs)), repr(sorted(operator.options.items())))
        first = seen.setdefault(key, operator)
        if first is not operator and len(operator.outputs) == 1 and operator.outputs[0] not in net.outputs:
            net.replace(operator.outputs[0], first.outputs[0])
            net.operators.remove(operator)
            first.sources |= operator.sources


def _take_the_place(net: Net, operator: Operator, ops: list[Operator]) -> None:
    for new in ops:
        new.sources = set(operator.sources)
    net.put(operator, ops)


# --- identities ------------------------------------------------------------------------------------------


def add_identities(net: Net) -> None:
    """Insert operators that change nothing after some values."""
    for _ in range(net.random.randint(1, 6)):
        values = [value for operator in net.operators for value in operator.outputs] + net.inputs
        value = net.random.choice([value for value in values if net.users()[value]])
        _insert(net, value, net.random.choice(["RESHAPE", "RESHAPE", "CAST", "QUANTIZE", "TRANSPOSE"]))


def _insert(net: Net, value: Value, code: str) -> list[Operator]:
    """Insert an identity after a value."""
    users, maker = list(net.users()[value]), net.makers().get(value)
    sources = set(maker.sources) if maker else set(users[0][0].sources)

    def new(code: str, x: Value, *more: Value, shape: Shape = value.shape) -> Operator:
        return Operator(code, [x, *more], [Value(net.name(code), shape)], {}, set(sources))

    ops = [new(code, value, *([net.integers(*value.shape)] if code == "RESHAPE" else []))]
    if code == "QUANTIZE":
        ops[0].outputs[0].dtype = "INT8"
        ops.append(new("DEQUANTIZE", ops[0].outputs[0]))
    elif code == "TRANSPOSE":
        order = list(range(len(value.shape)))
        order[-2:] = order[:-3:-1] if len(order) > 1 else order
        turned = tuple(value.shape[axis] for axis in order)
        ops = [new(code, value, net.integers(*order), shape=turned)]
        ops.append(new(code, ops[0].outputs[0], net.integers(*order)))
    for user, slot in users:
        user.inputs[slot] = ops[-1].outputs[0]
    net.outputs = [ops[-1].outputs[0] if output is value else output for output in net.outputs]
    at = net.operators.index(maker) + 1 if maker else 0
    net.operators[at:at] = ops
    return ops


def add_layouts(net: Net) -> None:
    """Insert reshapes to another shape and back around elementwise operators."""
    for operator in list(net.operators):
        if operator.code in EACH_ELEMENT and len(operator.inputs) == 1 and len(operator.outputs[0].shape) > 1:
            x, made = operator.inputs[0], operator.outputs[0]
            flat = (int(np.prod(x.shape)),)
            first = Operator("RESHAPE", [x, net.integers(*flat)], [Value(net.name("RESHAPE"), flat)])
            inner, lower, upper = (Value(net.name(code), flat) for code in (operator.code, "MINIMUM", "MAXIMUM"))
            operator.inputs, operator.outputs = list(first.outputs), [inner]
            least = Operator("MINIMUM", [inner, net.scalar(2.0)], [lower])
            most = Operator("MAXIMUM", [lower, net.scalar(-2.0)], [upper])
            last = Operator("RESHAPE", [upper, net.integers(*made.shape)], [made])
            net.put(operator, [first, operator, least, most, last])


def sink_layouts(net: Net) -> None:
    """Move reshapes after the elementwise operators that read their output, often keeping the names."""
    for layout in list(net.operators):
        x = layout.inputs[0]
        chain = [layout]
        while len(users := net.users()[chain[-1].outputs[0]]) == 1 and users[0][0].code in (*EACH_ELEMENT, *CLAMPS):
            chain.append(users[0][0])
        if layout.code != "RESHAPE" or len(chain) < 3 or net.random.random() < 0.3:
            continue
        outputs = [operator.outputs[0] for operator in chain]
        names = [value.name for value in outputs]
        values = [Value(net.name("moved"), x.shape) for _ in chain[1:]]
        for operator, taken, made in zip(chain[1:], [x, *values], values, strict=False):
            operator.inputs[0], operator.outputs = taken, [made]
        layout.inputs[0], layout.outputs = values[-1], [outputs[-1]]
        if net.random.random() < 0.7:
            for value, name in zip([*values, outputs[-1]], names, strict=True):
                value.name = name
    net.sort()


def remove_identities(net: Net) -> Removed:
    """Remove operators that change nothing."""
    removed: Removed = set()
    for operator in list(net.operators):
        makers, (x, *more) = net.makers(), operator.inputs
        before = makers.get(x)
        if before is None:
            continue
        same = operator.code in ("RESHAPE", "CAST") and x.shape == operator.outputs[0].shape
        back = (before.code, operator.code) == ("QUANTIZE", "DEQUANTIZE")
        if before.code == operator.code == "TRANSPOSE":
            first, second = before.inputs[1].data, more[0].data
            back = first is not None and second is not None and np.array_equal(first, second)
        if same or back:
            net.replace(operator.outputs[0], x if same else before.inputs[0])
            net.operators.remove(operator)
            removed |= operator.sources
            if back and not net.users()[x]:
                net.operators.remove(before)
                removed |= before.sources
    return removed


def quantize(net: Net) -> None:
    """Quantize weights and, in half of the cases, the inputs."""
    done: dict[Value, Value] = {}
    for operator in net.operators:
        weights = operator.inputs[1] if operator.is_weighted else None
        if weights is not None and weights.data is not None:
            scale = np.abs(weights.data).max() / 127
            small = np.round(weights.data / scale).clip(-127, 127).astype(np.int8)
            operator.inputs[1] = done.setdefault(weights, Value(weights.name, weights.shape, "INT8", small))
    if net.random.random() < 0.5:
        for value in list(net.inputs):
            if net.users()[value]:
                first, last = _insert(net, value, "QUANTIZE")
                net.operators.remove(last)
                net.replace(last.outputs[0], first.outputs[0])
