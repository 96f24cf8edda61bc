"""The kinds of pairs: the changes that make BEFORE, those that make AFTER, and the treatment of names."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Callable

from benchmarks.tracking_pairs import Pair, renumbered, rotated, without_names
from tools.tracking.graphs import Net
from tools.tracking.lowering import (
    add_identities,
    add_layouts,
    decompose,
    double,
    merge_equal,
    quantize,
    read_clamps,
    remove_identities,
    sink_layouts,
    split_channels,
    write_clamps,
)
from tools.tracking.nets import make
from tools.tracking.rewrites import (
    Removed,
    add_constant_operators,
    add_dead_code,
    add_heads,
    change_resolution,
    compile_parts,
    cut,
    drop_heads,
    enlarge_batch,
    fold_batch_norms,
    fold_constants,
    fuse_activations,
    fuse_groups,
    shuffle,
    unfuse_activations,
)

Step = Callable[[Net], Removed | None]

KINDS: dict[str, tuple[tuple[Step, ...], tuple[Step, ...]]] = {
    "same": ((), ()),
    "batch": ((), (enlarge_batch,)),
    "resolution": ((), (change_resolution,)),
    "heads": ((add_heads,), (drop_heads,)),
    "dead code": ((add_dead_code,), (Net.prune,)),
    "cut": ((), (cut,)),
    "fuse activations": ((), (fuse_activations,)),
    "fold norms": ((), (fold_batch_norms,)),
    "fold constants": ((add_constant_operators,), (fold_constants,)),
    "fuse groups": ((), (fuse_groups,)),
    "unfuse": ((fuse_activations,), (unfuse_activations,)),
    "split": ((), (split_channels,)),
    "decompose": ((), (decompose,)),
    "write clamps": ((), (write_clamps,)),
    "read clamps": ((write_clamps,), (read_clamps,)),
    "double": ((), (double,)),
    "merge equal": ((double,), (merge_equal,)),
    "double and fold": ((), (double, fold_batch_norms, fuse_activations)),
    "sink layouts": ((add_layouts,), (sink_layouts,)),
    "compile": ((), (compile_parts,)),
    "add identities": ((), (add_identities,)),
    "remove identities": ((add_identities,), (remove_identities,)),
    "quantize": ((), (quantize,)),
    "shuffle": ((), (shuffle,)),
    "optimize": (
        (add_heads, add_identities),
        (drop_heads, remove_identities, fold_batch_norms, fuse_activations, quantize, shuffle),
    ),
    "batch and quantize": ((), (enlarge_batch, fold_batch_norms, fuse_activations, quantize)),
    "fuse and compile": ((), (fold_batch_norms, fuse_activations, compile_parts)),
    "cut and fuse": ((add_heads,), (drop_heads, cut, fuse_activations)),
}
"""By name: the rewrites from a network to BEFORE, and from BEFORE to AFTER."""

NAMES = ("kept", "none", "permuted", "renumbered", "prefixed")
"""The treatment of AFTER's names; with `none`, BEFORE has none either."""


def pair(seed: int, kind: str, names: str = "kept") -> Pair:
    """Return the pair for a seed."""
    chosen = random.Random(f"{seed} {kind}")
    net = make(chosen.randrange(1 << 30))
    first, then = KINDS[kind]
    for step in first:
        step(net)
    for number, operator in enumerate(net.operators):
        operator.sources = {number}
    after = copy.deepcopy(net)
    after.random = chosen
    removed = set[int]().union(*(step(after) or () for step in then))
    if shuffle not in then:
        after.sort()
    if names == "prefixed":
        for value in after.values():
            value.name = f"model/{value.name}"
    old, new = net.to_bytes(), after.to_bytes()
    change = {"none": without_names, "permuted": rotated, "renumbered": renumbered}.get(names)
    new = change(new) if change else new
    old = without_names(old) if names == "none" else old
    truth = {(0, number): set(operator.sources) for number, operator in enumerate(after.operators)}
    return Pair(f"{seed}.{kind}", old, new, truth, frozenset(removed))


def strangers(seed: int, names: str = "kept") -> Pair:
    """Return two unrelated models, for which no origin is correct."""
    files = make(2 * seed + 1).to_bytes(), make(2 * seed + 2).to_bytes()
    if names == "none":
        files = without_names(files[0]), without_names(files[1])
    return Pair(f"{seed}.strangers", *files, defaultdict(set))
