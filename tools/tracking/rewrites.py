"""Changes that tools make to a network. A rewrite updates the sources of operators, and returns those that were lost.

A fused operator has the union of sources; an operator that replaces or continues another has a copy.
"""

from __future__ import annotations

import numpy as np

from tools.tracking.graphs import Net, Operator, Value

Removed = set[int]
_SUMS = ("ADD", "MUL", "SUB")


# --- sizes, order, ends -------------------------------------------------------------------------------------


def enlarge_batch(net: Net) -> None:
    """Multiply the first dimension of all computed values."""
    factor = net.random.choice([2, 3, 4, 8])
    for value in net.values():
        value.shape = (value.shape[0] * factor, *value.shape[1:])
    _new_shapes(net)


def change_resolution(net: Net) -> None:
    """Change the height and width, or the length of a sequence, or else the batch."""
    high, wide = net.random.choice([(2.0, 2.0), (3.0, 2.0), (1.5, 1.5), (1.0, 2.0), (0.5, 0.5)])
    if any(len(value.shape) == 4 for value in net.inputs):
        for value in net.values():
            if len(value.shape) == 4 and value.shape[1] > 1:
                n, h, w, c = value.shape
                value.shape = (n, max(1, int(h * high)), max(1, int(w * wide)), c)
        for operator in net.operators:
            if operator.code == "RESIZE_BILINEAR":
                operator.inputs[1] = net.integers(*operator.outputs[0].shape[1:3])
    elif any(operator.code == "BATCH_MATMUL" for operator in net.operators):
        length = net.inputs[0].shape[1]
        longer = int(length * high) if high != 1 else 2 * length
        for value in net.values():
            value.shape = tuple(longer if size == length and at else size for at, size in enumerate(value.shape))
        _new_shapes(net)
    else:
        enlarge_batch(net)


def _new_shapes(net: Net) -> None:
    for operator in net.operators:
        if operator.code == "RESHAPE":
            operator.inputs[1] = net.integers(*operator.outputs[0].shape)


def shuffle(net: Net) -> None:
    """Put the operators in another order."""
    net.sort(any_order=True)


def add_heads(net: Net, *, dead: bool = False) -> None:
    """Append branches that begin at inner values and end in new outputs or, if dead, in none."""
    inner = [value for operator in net.operators for value in operator.outputs if value not in net.outputs]
    for head in range(net.random.randint(1, 3)):
        x = net.random.choice(inner)
        net.scope = f"net/aux{head}"
        for _ in range(net.random.randint(1, 6)):
            kind = net.random.random()
            if kind < 0.35:
                x = net.dense(x, net.random.choice([4, 8, 12])) if len(x.shape) < 4 else net.conv(x, 4, 1)
            elif kind < 0.5:
                x = net.add("ADD", [x, net.weights(x.shape[-1])], x.shape)
            else:
                x = net.act(x, net.random.choice(["RELU", "TANH", "LOGISTIC", "SOFTMAX", "ABS"]))
        if not dead:
            net.outputs.append(x)
    if not dead and net.random.random() < 0.3:
        net.outputs.insert(0, net.outputs.pop())


def add_dead_code(net: Net) -> None:
    """Append operators that no output needs."""
    add_heads(net, dead=True)


def drop_heads(net: Net) -> None:
    """Remove some outputs, and the operators that only they needed."""
    count = net.random.randint(1, max(1, len(net.outputs) - 1))
    net.outputs = [net.outputs[at] for at in sorted(net.random.sample(range(len(net.outputs)), count))]
    net.prune()


def cut(net: Net) -> None:
    """Keep only the first, middle or last part."""
    count, how = len(net.operators), net.random.choice(["front", "back", "middle"])
    first = net.random.randint(1, max(1, count // 2)) if how != "front" else 0
    end = net.random.randint(*sorted((max(first + 2, count // 2), count - 1))) if how != "back" else count
    kept = net.operators[first:end]
    earlier = [value for operator in net.operators[:first] for value in operator.outputs]
    later = {value for operator in net.operators[end:] for value in operator.inputs} | set(net.outputs)
    taken = {value for operator in kept for value in operator.inputs}
    net.inputs = [value for value in [*net.inputs, *earlier] if value in taken]
    net.outputs = [value for operator in kept for value in operator.outputs if value in later]
    net.operators = kept


# --- fusing and folding -------------------------------------------------------------------------------------


def fuse_activations(net: Net) -> None:
    """Fuse activations into the operators before them; the value keeps either name."""
    keeps_last = net.random.choice([True, False])
    for operator in list(net.operators):
        x = operator.inputs[0]
        before = net.makers().get(x)
        if operator.code not in ("RELU", "RELU6") or before is None or not _only(net, x):
            continue
        if (before.is_weighted or before.code in _SUMS) and before.activation == "NONE":
            before.options = {**before.options, "fused_activation_function": operator.code}
            _swallow(net, before, operator, keeps_last=keeps_last)


def unfuse_activations(net: Net) -> None:
    """Turn fused activations into separate operators."""
    for operator in list(net.operators):
        if operator.activation != "NONE" and net.random.random() < 0.8:
            made, inner = operator.outputs[0], Value(net.name("pre"), operator.outputs[0].shape)
            operator.outputs = [inner]
            net.put(operator, [operator, Operator(operator.activation, [inner], [made], {}, set(operator.sources))])
            operator.options = {**operator.options, "fused_activation_function": "NONE"}


def fold_batch_norms(net: Net) -> None:
    """Fold multiplications into weights, and additions into the bias."""
    keeps_last = net.random.choice([True, False])
    for operator in list(net.operators):
        if operator.code not in ("MUL", "ADD") or operator.group:
            continue
        x, constant = operator.inputs
        before = net.makers().get(x)
        if constant.data is None or before is None or constant.data.shape != (x.shape[-1],):
            continue
        free = before.is_weighted and before.activation == "NONE" and _only(net, x)
        if not free or len(net.users()[before.inputs[1]]) > 1:
            continue
        weights, bias = (value.data for value in before.inputs[1:])
        assert weights is not None
        assert bias is not None
        if operator.code == "MUL":
            shape = [1] * weights.ndim
            shape[-1 if before.code == "DEPTHWISE_CONV_2D" else 0] = -1
            before.inputs[1:] = [
                net.constant(weights * constant.data.reshape(shape)),
                net.constant(bias * constant.data),
            ]
        else:
            before.inputs[2] = net.constant(bias + constant.data)
        _swallow(net, before, operator, keeps_last=keeps_last)


def _only(net: Net, value: Value) -> bool:
    return len(net.users()[value]) == 1 and value not in net.outputs


def _swallow(net: Net, before: Operator, operator: Operator, *, keeps_last: bool) -> None:
    """Fuse the reader of the only output of `before` into `before`."""
    before.sources |= operator.sources
    net.operators.remove(operator)
    if keeps_last:
        before.outputs = list(operator.outputs)
    else:
        net.replace(operator.outputs[0], before.outputs[0])


def fuse_groups(net: Net) -> None:
    """Fuse decomposed layer normalizations and GELUs into one operator each."""
    for name in sorted({operator.group for operator in net.operators if operator.group}):
        ops = [operator for operator in net.operators if operator.group == name]
        made = {value for operator in ops for value in operator.outputs}
        taken = dict.fromkeys(value for operator in ops for value in operator.inputs if value not in made)
        inputs = [value for value in taken if value.data is None or value.data.size > 4]
        outputs = _needed_outside(net, ops)
        if net.random.random() > 0.2 and len(outputs) == 1:
            code = "CUSTOM:LayerNorm" if name.startswith("LayerNorm") else "GELU"
            sources = set[int]().union(*(operator.sources for operator in ops))
            net.put(ops[-1], [Operator(code, inputs, outputs, {}, sources)])
            net.operators = [operator for operator in net.operators if operator not in ops]


def _needed_outside(net: Net, ops: list[Operator]) -> list[Value]:
    users, made = net.users(), [value for operator in ops for value in operator.outputs]
    return [value for value in made if value in net.outputs or any(user not in ops for user, _ in users[value])]


def compile_parts(net: Net) -> None:
    """Replace runs of operators by one custom operator with a blob, as Vela does."""
    for _ in range(net.random.randint(1, 2)):
        count = len(net.operators)
        if count < 4:
            break
        first = net.random.randint(0, count // 2)
        end = net.random.randint(first + 2, count)
        ops = net.operators[first:end]
        if any(operator.code == "CUSTOM:npu" for operator in ops):
            continue
        made = {value for operator in ops for value in operator.outputs}
        taken = dict.fromkeys(value for operator in ops for value in operator.inputs if value not in made)
        blob = net.constant(net.numbers.integers(0, 255, 999).astype(np.uint8), "blob")
        inputs = [blob, *(value for value in taken if value.data is None)]
        sources = set[int]().union(*(operator.sources for operator in ops))
        net.operators[first:end] = [Operator("CUSTOM:npu", inputs, _needed_outside(net, ops), {}, sources)]


def add_constant_operators(net: Net) -> None:
    """Compute weights at run time: from half precision, or by transposition."""
    for operator in list(net.operators):
        weights = operator.inputs[1] if operator.code in ("FULLY_CONNECTED", "CONV_2D") else None
        if weights is None or weights.data is None or net.random.random() < 0.5:
            continue
        made = Value(net.name("made"), weights.shape)
        if net.random.random() < 0.5 or weights.data.ndim != 2:
            new = Operator("DEQUANTIZE", [net.constant(weights.data.astype(np.float16))], [made])
        else:
            turned = net.constant(np.ascontiguousarray(weights.data.T))
            new = Operator("TRANSPOSE", [turned, net.integers(1, 0)], [made])
        net.put(operator, [new, operator])
        operator.inputs[1] = made


def fold_constants(net: Net) -> None:
    """Fold operators that depend only on constants."""
    for operator in list(net.operators):
        data = operator.inputs[0].data
        if data is not None and operator.code in ("DEQUANTIZE", "TRANSPOSE"):
            folded = data.astype(np.float32) if operator.code == "DEQUANTIZE" else np.ascontiguousarray(data.T)
            operator.outputs[0].data = folded
            for user, _ in net.users()[operator.outputs[0]]:
                user.sources |= operator.sources
            net.operators.remove(operator)
