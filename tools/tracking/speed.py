"""Measure the time of tracking for models with 100,000 operators, in three shapes, renamed and rewritten.

python -m tools.tracking.speed [--count 100000]
"""

from __future__ import annotations

import argparse
import copy
import gc
import time
from collections.abc import Callable

from benchmarks.tracking_pairs import without_names
from circletools.model.model import open_model
from circletools.origin.tracking.tracker import track
from tools.tracking.graphs import Net
from tools.tracking.nets import mobile, transformer

_CODES = ("RELU", "TANH", "LOGISTIC", "ADD", "MUL", "FULLY_CONNECTED")

_FUSING = ("ADD", "MUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def scattered(net: Net, count: int) -> None:
    """Make operators that read results of some of the previous fifty."""
    values = [net.input(1, 8)]
    for _ in range(count):
        code, x, y = net.random.choice(_CODES), *net.random.choices(values[-50:], k=2)
        if code == "FULLY_CONNECTED":
            values.append(net.dense(x, 8))
        else:
            values.append(net.add(code, [x, y] if code in ("ADD", "MUL") else [x], x.shape))
    net.outputs = values[-50:]


SHAPES: dict[str, Callable[[Net, int], None]] = {
    "transformer": lambda net, count: transformer(net, count // 41),
    "mobile": lambda net, count: mobile(net, count // 9),
    "scattered": scattered,
}


def seconds(before: bytes, after: bytes) -> tuple[float, int]:
    """Return the CPU time in seconds, and the number of operators without an origin."""
    with open_model(before) as old, open_model(after) as new:
        start = time.process_time()
        tracking = track(old, new)
        return time.process_time() - start, len(tracking.without_origin)


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    count = parser.parse_args().count
    gc.disable()  # as the command does
    print("| shape | operators | AFTER | seconds of CPU | without origin |\n|---|---:|---|---:|---:|")
    for shape, make in SHAPES.items():
        net = Net(1, "path")
        make(net, count)
        before = net.to_bytes()
        rewritten = copy.copy(net)
        rewritten.operators = [copy.copy(operator) for operator in net.operators]
        _fuse(rewritten)
        afters = {"the same": before, "without names": without_names(before), "fused": rewritten.to_bytes()}
        afters["fused, without names"] = without_names(afters["fused"])
        for kind, after in afters.items():
            used, lost = seconds(before, after)
            print(f"| {shape} | {len(net.operators):,} | {kind} | {used:.2f} | {lost} |", flush=True)


def _fuse(net: Net) -> None:
    """Fuse each RELU into the operator before it, if possible."""
    users, makers, outputs, kept = net.users(), net.makers(), set(net.outputs), []
    for operator in net.operators:
        x = operator.inputs[0]
        maker = makers.get(x)
        alone = len(users[x]) == 1 and x not in outputs and operator.code in ("RELU", "RELU6")
        if maker is not None and alone and maker.activation == "NONE" and maker.code in _FUSING:
            maker.options = {**maker.options, "fused_activation_function": operator.code}
            maker.outputs = operator.outputs
            makers[operator.outputs[0]] = maker
            continue
        kept.append(operator)
    net.operators = kept


if __name__ == "__main__":
    main()
