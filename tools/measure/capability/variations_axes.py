"""Axes along which operators reduce, join, move and select elements."""

from collections.abc import Iterator, Sequence
from itertools import product

from tools.measure.capability.single import Operand, Probe
from tools.measure.capability.variation import Variation
from tools.measure.capability.variations import computed, constant, indices
from tools.measure.capability.variations_shapes import NAMES

_SOURCE = (2, 3, 4, 5)


def axes() -> Iterator[Variation]:
    """Yield reductions, concatenations and movements along other axes."""
    yield from _reductions()
    yield from _orders()
    yield from _joint_axes()
    yield from _choice_axes()


def _reductions() -> Iterator[Variation]:
    sides = ((0,), (1,), (2,), (3,), (-1,), (1, 2), (2, 3), (0, 1), (1, 2, 3), (0, 1, 2, 3), (2, 1), (1, 3))
    values = [
        f"input1.{what}"
        for what in (
            "value >= 1",
            "value >= 0",
            "value <= 2",
            "value >= 2",
            "value == 3",
            "size == 1",
            "size == 2",
            "size <= 2",
            "value0 == 1",
            "value-1 == 2",
            "value-1 == 3",
            "value0 == 0",
            "value0 == 3",
            "size < 4",
        )
    ]
    values += ["keep_dims == 1", "input0.dim0 == 1", "output0.rank == 4"]
    for code in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        probes = [
            Probe(
                code,
                (computed(name, batch, *_SOURCE[1:]), indices(*axis)),
                (computed(name, *_reduced((batch, *_SOURCE[1:]), axis, keep)),),
                (("keep_dims", keep),),
                "ReducerOptions",
            )
            for name, batch, axis, keep in product(NAMES, (1, 2), sides, (False, True))
        ]
        yield Variation(tuple(probes), tuple(values))


def _orders() -> Iterator[Variation]:
    orders = (
        (0, 1, 2, 3),
        (0, 3, 1, 2),
        (0, 2, 3, 1),
        (0, 2, 1, 3),
        (0, 1, 3, 2),
        (1, 0, 2, 3),
        (3, 2, 1, 0),
        (2, 3, 0, 1),
        (0, 3, 2, 1),
    )
    moved = [
        Probe(
            "TRANSPOSE",
            (computed(name, *_SOURCE), indices(*order)),
            (computed(name, *(_SOURCE[at] for at in order)),),
            (),
            "TransposeOptions",
        )
        for name, order in product(NAMES, orders)
    ]
    places = [f"input1.value{at} == {number}" for at in range(4) for number in range(4)]
    yield Variation(tuple(moved), tuple(places))


def _reduced(shape: Sequence[int], axis: Sequence[int], keep: bool) -> list[int]:
    gone = {at % len(shape) for at in axis}
    return [1 if at in gone else side for at, side in enumerate(shape) if keep or at not in gone]


def _joint_axes() -> Iterator[Variation]:
    candidates = ("axis == 0", "axis > 0", "axis == 3", "axis >= 0", "axis == -1", "input0.dim0 == 1", "axis < 3")
    of_input = ("input0.value == 3", "input0.value >= 0", "input0.value > 0", "input1.dim0 == 1")
    for name in NAMES:
        for probes in zip(
            *(_joints(name, axis, batch) for axis, batch in product((-1, 0, 1, 2, 3), (1, 2))), strict=True
        ):
            yield Variation(tuple(probes), of_input if probes[0].code == "SPLIT" else candidates)


def _joints(name: str, axis: int, batch: int) -> Iterator[Probe]:
    """Yield CONCATENATION, PACK, UNPACK and SPLIT along an axis."""
    shape, place = [batch, 4, 2, 6], axis % 4
    one, flat = computed(name, *shape), computed(name, *shape[:3])
    twice = computed(name, *shape[:place], 2 * shape[place], *shape[place + 1 :])
    stack = computed(name, *shape[:place], 2, *shape[place:3])
    fused = (("axis", axis), ("fused_activation_function", 0))
    for code, inputs, outputs, options, table in (
        ("CONCATENATION", (one, one), (twice,), fused, "ConcatenationOptions"),
        ("PACK", (flat, flat), (stack,), (("values_count", 2), ("axis", axis)), "PackOptions"),
        ("UNPACK", (stack,), (flat, flat), (("num", 2), ("axis", axis)), "UnpackOptions"),
        ("SPLIT", (constant("INT32", data=(axis,)), twice), (one, one), (("num_splits", 2),), "SplitOptions"),
    ):
        yield Probe(code, inputs, outputs, options, table, variadic=True)


def _choice_axes() -> Iterator[Variation]:
    for code, name, axis in product(("ARG_MAX", "ARG_MIN"), NAMES, (0, 1, 3, -1)):
        shape = (2, 3, 4, 5)
        target = [side for at, side in enumerate(shape) if at != axis % 4]
        probe = Probe(
            code,
            (computed(name, *shape), constant("INT32", data=(axis,))),
            (computed("INT32", *target),),
            (("output_type", 2),),
            "ArgMaxOptions" if code == "ARG_MAX" else "ArgMinOptions",
        )
        yield Variation(
            (probe,), ("input1.value == 3", "input1.value == -1", "input1.value >= 0", "input1.value > 0")
        )
    gathered = [
        Probe(
            "GATHER",
            (computed(name, 4, 3, 2), Operand("INT32", list_, kind)),
            (computed(name, *(4, 3, 2)[:axis], *list_, *(4, 3, 2)[axis + 1 :]),),
            (("axis", axis), ("batch_dims", 0)),
            "GatherOptions",
        )
        for name, axis, list_, kind in product(NAMES, (0, 1, 2), ((2,), (), (1, 3), (2, 3)), ("computed", "constant"))
    ]
    yield Variation(
        tuple(gathered),
        (
            *(f"axis == {axis}" for axis in (0, 1, 2)),
            *(f"input1.rank {words}" for words in ("== 1", "> 0", "<= 1")),
            "axis <= 1",
        ),
    )
