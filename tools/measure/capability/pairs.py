"""Pairs of operators: those that a device refuses although it accepts each of the two alone."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from tests.kit.build import Code
from tools.measure.capability.single import Operand, Probe, Writer
from tools.measure.capability.template import d
from tools.measure.capability.variations import computed, constant, indices

_TYPES = ("FLOAT32", "INT32", "INT64", "UINT8", "INT8", "BOOL", "INT8/t", "UINT8/t")
_REASON = "each is accepted alone, but not both together"
_FUSED = (("fused_activation_function", 0),)


@dataclass(frozen=True)
class Pair:
    """Two operators; the second reads an output of the first (feeds), or a tensor that the first reads (shares)."""

    first: Probe
    then: Probe
    link: str

    focus = 1

    @property
    def between(self) -> Operand:
        """The tensor that both use."""
        return self.first.outputs[0] if self.link == "feeds" else self.first.inputs[0]

    @cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """The operands that are fed."""
        return (*self.first.inputs, *self.then.inputs[1:])

    @cached_property
    def model(self) -> bytes:
        """The TFLite file."""
        writer = Writer()
        sources = [writer.operand(operand) for operand in self.first.inputs]
        middle = [writer.operand(operand) for operand in self.first.outputs]
        more = [writer.operand(operand) for operand in self.then.inputs[1:]]
        ends = [writer.operand(operand) for operand in self.then.outputs]
        shared = middle[0] if self.link == "feeds" else sources[0]
        # An operator that reads a tensor twice does so here too.
        then = [
            shared,
            *(
                shared if one == self.then.inputs[0] else at
                for one, at in zip(self.then.inputs[1:], more, strict=True)
            ),
        ]
        writer.operator(Code(self.first.code), sources, middle, (self.first.table, self.first.options))
        writer.operator(Code(self.then.code), then, ends, (self.then.table, self.then.options))
        fed = [
            at
            for at, one in zip([*sources, *more], self.inputs, strict=True)
            if one.kind == "computed" and at in {*sources, *then}
        ]
        return writer.ends(fed, [*(middle if self.link == "shares" else middle[1:]), *ends])


@dataclass(frozen=True)
class Alone:
    """A single operator; as in a pair, it reads one tensor in both places if its first inputs are alike."""

    probe: Probe

    focus = 0

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The operands that are fed."""
        return tuple(dict.fromkeys(self.probe.inputs))

    @cached_property
    def model(self) -> bytes:
        """The TFLite file."""
        writer = Writer()
        places = {operand: writer.operand(operand) for operand in self.inputs}
        ends = [writer.operand(operand) for operand in self.probe.outputs]
        read = [places[operand] for operand in self.probe.inputs]
        writer.operator(Code(self.probe.code), read, ends, (self.probe.table, self.probe.options))
        return writer.ends([at for operand, at in places.items() if operand.kind == "computed"], ends)


def firsts() -> Iterator[Probe]:
    """Yield operators that may come first: those common in models, with several types and ranks."""
    for rank in (2, 3, 4):
        rows = Operand("FLOAT32", (*(1,) * (rank - 2), 6, 4))
        options = (*_FUSED, ("weights_format", 0), ("keep_num_dims", rank > 2), ("asymmetric_quantize_inputs", False))
        target = Operand("FLOAT32", (*rows.shape[:-1], 3))
        for keeps in (True, False):
            given = tuple((name, keeps if name == "keep_num_dims" else value) for name, value in options)
            weights, bias = constant("FLOAT32", 3, 4), constant("FLOAT32", 3)
            yield Probe("FULLY_CONNECTED", (rows, weights, bias), (target,), given, "FullyConnectedOptions")
    for one, other, rank in product(_TYPES, _TYPES, (2, 3)):
        if "/" not in one + other and one != other:
            yield Probe("CAST", (Operand(one, d(rank)),), (Operand(other, d(rank)),))
    for name, rank in product(_TYPES, (1, 2, 3, 4)):
        yield from _unchanging(Operand(name, d(rank)))


def _unchanging(tensor: Operand) -> Iterator[Probe]:
    """Yield operators whose output has the type and shape of their input."""
    order = constant("INT32", len(tensor.shape), data=range(len(tensor.shape)))
    yield Probe("TRANSPOSE", (tensor, order), (tensor,), (), "TransposeOptions")
    yield Probe(
        "RESHAPE", (tensor, indices(*tensor.shape)), (tensor,), (("new_shape", tensor.shape),), "ReshapeOptions"
    )
    yield Probe("ADD", (tensor, tensor), (tensor,), _FUSED, "AddOptions")
    for code in ("RELU", "TANH", "ABS"):
        yield Probe(code, (tensor,), (tensor,))
    joined = replace(tensor, shape=(2 * tensor.shape[0], *tensor.shape[1:]))
    yield Probe("CONCATENATION", (tensor, tensor), (joined,), (("axis", 0), *_FUSED), "ConcatenationOptions")
    yield Probe("GREATER", (tensor, tensor), (replace(tensor, type="BOOL"),), (), "GreaterOptions")
    lowered = replace(tensor, shape=tensor.shape[:-1])
    yield Probe(
        "SUM", (tensor, indices(len(tensor.shape) - 1)), (lowered,), (("keep_dims", False),), "ReducerOptions"
    )
    yield Probe(
        "ARG_MAX",
        (tensor, constant("INT32", data=(0,))),
        (Operand("INT32", tensor.shape[1:]),),
        (("output_type", 2),),
        "ArgMaxOptions",
    )


def thens(tensor: Operand) -> Iterator[Probe]:
    """Yield operators that read a tensor."""
    if not tensor.shape:
        return
    yield from _unchanging(tensor)
    rank, backwards = len(tensor.shape), tensor.shape[::-1]
    order = constant("INT32", rank, data=[*range(rank)][::-1])
    yield Probe("TRANSPOSE", (tensor, order), (replace(tensor, shape=backwards),), (), "TransposeOptions")
    for code, table in (("MUL", "MulOptions"), ("SUB", "SubOptions"), ("DIV", "DivOptions")):
        yield Probe(code, (tensor, tensor), (tensor,), _FUSED, table)
    for code, table in (("MAXIMUM", "MaximumMinimumOptions"), ("MINIMUM", "MaximumMinimumOptions")):
        yield Probe(code, (tensor, tensor), (tensor,), (), table)
    for code, table in (
        ("SOFTMAX", "SoftmaxOptions"),
        ("LOGISTIC", ""),
        ("EXP", "ExpOptions"),
        ("NEG", "NegOptions"),
    ):
        yield Probe(code, (tensor,), (tensor,), (("beta", 1.0),) if code == "SOFTMAX" else (), table)
    yield from _reshaping(tensor)
    for kind in ("FLOAT32", "INT32", "UINT8", "BOOL"):
        if tensor.type != kind and "/" not in tensor.type:
            yield Probe("CAST", (tensor,), (Operand(kind, tensor.shape),))


def _reshaping(tensor: Operand) -> Iterator[Probe]:
    """Yield operators whose output has another shape."""
    rank = len(tensor.shape)
    one = replace(tensor, shape=(1,) * rank)
    starts, sizes = indices(*(0,) * rank), indices(*(1,) * rank)
    yield Probe("SLICE", (tensor, starts, sizes), (one,), (), "SliceOptions")
    yield Probe(
        "EXPAND_DIMS",
        (tensor, constant("INT32", data=(0,))),
        (replace(tensor, shape=(1, *tensor.shape)),),
        (),
        "ExpandDimsOptions",
    )
    yield Probe(
        "PACK",
        (tensor, tensor),
        (replace(tensor, shape=(2, *tensor.shape)),),
        (("values_count", 2), ("axis", 0)),
        "PackOptions",
    )
    wider = replace(tensor, shape=tuple(side + 1 for side in tensor.shape))
    yield Probe("PAD", (tensor, constant("INT32", rank, 2, data=(1, 0) * rank)), (wider,), (), "PadOptions")
    yield Probe(
        "GATHER",
        (tensor, indices(0, 0)),
        (replace(tensor, shape=(2, *tensor.shape[1:])),),
        (("axis", 0), ("batch_dims", 0)),
        "GatherOptions",
    )
    yield Probe("SQUARE", (tensor,), (tensor,), (), "SquareOptions")
    yield Probe(
        "MEAN",
        (tensor, indices(rank - 1)),
        (replace(tensor, shape=(*tensor.shape[:-1], 1)),),
        (("keep_dims", True),),
        "ReducerOptions",
    )
    if rank > 1 and tensor.type == "FLOAT32":
        weights = computed("FLOAT32", 3, tensor.shape[-1])
        target = Operand("FLOAT32", (*tensor.shape[:-1], 3))
        options = (*_FUSED, ("weights_format", 0), ("keep_num_dims", rank > 2), ("asymmetric_quantize_inputs", False))
        yield Probe(
            "FULLY_CONNECTED",
            (tensor, replace(weights, kind="constant")),
            (target,),
            options,
            "FullyConnectedOptions",
        )


Ask = Callable[[Sequence[Any]], list[bool]]


def rules(ask: Ask, asks: Callable[[Probe], bool]) -> list[dict[str, Any]]:
    """Return the fewest context rules that describe the operators accepted alone but refused together."""
    leading = [*dict.fromkeys(filter(asks, firsts()))]
    first = [probe for probe, taken in zip(leading, ask(leading), strict=True) if taken]
    wanted = [(one, "feeds", one.outputs[0]) for one in first] + [(one, "shares", one.inputs[0]) for one in first]
    second = {tensor: [*thens(tensor)] for _, _, tensor in wanted}
    seconds = [*dict.fromkeys(filter(asks, (probe for probes in second.values() for probe in probes)))]
    good = {probe for probe, taken in zip(seconds, ask([*map(Alone, seconds)]), strict=True) if taken}
    pairs = [Pair(one, then, link) for one, link, tensor in wanted for then in second[tensor] if then in good]
    outcomes = list(zip(pairs, ask(pairs), strict=True))
    failing: dict[tuple[str, str, str, str], list[Pair]] = defaultdict(list)
    for pair, taken in outcomes:
        if not taken:
            failing[pair.link, pair.first.code, pair.between.type, pair.then.code].append(pair)
    found: dict[str, set[str]] = defaultdict(set)
    for (link, code, kind, then), bad in failing.items():
        for side in _sides(link, code, kind, then, bad, outcomes):
            found[json.dumps([link, side])].add(then)
    return [
        {"first": side, "then": {"operators": sorted(codes)}, "link": link, "reason": _REASON}
        for key, codes in sorted(found.items())
        for link, side in [json.loads(key)]
    ]


def _sides(
    link: str, code: str, kind: str, then: str, bad: Sequence[Pair], outcomes: Sequence[tuple[Pair, bool]]
) -> Iterator[dict[str, Any]]:
    """Yield the first operators of a rule, with the ranks that fail and, if it decides, one option value."""
    alike = [
        (pair, taken) for pair, taken in outcomes
        if (pair.link, pair.first.code, pair.between.type, pair.then.code) == (link, code, kind, then)
    ]  # fmt: skip
    tensor = "output0" if link == "feeds" else "input0"
    text = replace(bad[0].between, kind="computed").text()
    place = {"inputs": [text, *["*"] * (len(bad[0].first.inputs) - 1)]}
    if link == "feeds":
        place = {"outputs": [text.removesuffix(" computed")]}
    ranks = {len(pair.between.shape) for pair in bad}
    if not any(taken for _, taken in alike):
        yield {"operators": [code], **place}
        return
    others = {len(pair.between.shape) for pair, taken in alike if taken}
    if not others or min(ranks) > max(others):
        yield {"operators": [code], **place, "where": [f"{tensor}.rank >= {min(ranks)}"]}
        return
    for rank in sorted(ranks):
        here = [(pair, taken) for pair, taken in alike if len(pair.between.shape) == rank]
        where = {"where": [f"{tensor}.rank == {rank}"]}
        keeps = [(dict(pair.first.options).get("keep_num_dims"), taken) for pair, taken in here]
        bad_settings, good = ({keep for keep, taken in keeps if taken == is_good} for is_good in (False, True))
        if not good:
            yield {"operators": [code], **place, **where}
        elif not bad_settings & good:
            yield {"operators": [code], **place, **where, "options": {"keep_num_dims": sorted(bad_settings)}}
