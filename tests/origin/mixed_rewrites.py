"""Random models with all that tracking looks at, and what a tool may make of them; for test_tracking_found.

Operators have constants, several inputs and outputs, or none; subgraphs are called and change places; ends have names
of signatures. The tool drops, changes, puts in, doubles and exchanges operators, constants and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from tests.kit.build import Build, Graph, floats
from tests.kit.partition_support import seeded

SHAPES = ((6, 6), (36,), (3, 4))
ONE = ("TANH", "RELU", "NEG", "EXP", "RESHAPE", "TRANSPOSE", "PAD", "FULLY_CONNECTED", "FULLY_CONNECTED")
TWO = ("ADD", "MUL", "SUB", "CONCATENATION")
PUT_IN = ("QUANTIZE", "DEQUANTIZE", "RESHAPE", "CAST", "NEG", "TRANSPOSE")
WORDS = ("", "_quant", "_dequantized", "_int8", "_new")

Value = tuple[int, int]
"""A step and the position of its output; the inputs are (-1, 0), (-2, 0), …"""


@dataclass(frozen=True)
class Held:
    """A constant: which one, and in which form."""

    seed: int
    form: str = "plain"


@dataclass(frozen=True)
class Step:
    """An operator."""

    number: int
    code: str
    reads: tuple[Value, ...]
    held: tuple[Held, ...] = ()
    made: int = 1
    shape: tuple[int, ...] = SHAPES[0]
    calls: tuple[int, ...] = ()
    names: tuple[int, ...] = ()


@dataclass
class Plan:
    """A subgraph."""

    inputs: list[int]
    steps: list[Step] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)


def planned(generator: Random, least: int, most: int, called: int = 0) -> Plan:
    """Return a random subgraph; its operators call subgraphs 1 to `called`."""
    plan = Plan([-1 - number for number in range(generator.choice((1, 1, 2, 3)))])
    values: list[Value] = [(number, 0) for number in plan.inputs]
    calls = list(range(1, called + 1))
    for number in range(generator.randint(least, most)):
        code = generator.choice(ONE + TWO)
        reads = tuple(generator.choices(values[-6:], k=2 if code in TWO else 1))
        held: tuple[Held, ...] = ()
        if code == "FULLY_CONNECTED":
            held = tuple(Held(generator.randrange(9)) for _ in range(generator.randint(1, 2)))
        elif code in ("PAD", "MUL") and generator.random() < 0.5:
            reads, held = reads[:1], (Held(generator.randrange(3), "small"),)
        step = Step(number, code, reads, held, 1, generator.choice(SHAPES[:1] * 3 + SHAPES), (), (number,))
        rare = generator.random()
        if rare < 0.06:
            step = replace(step, code="SPLIT", made=2, held=())
        elif rare < 0.1:
            step = replace(step, code="VAR_HANDLE", reads=(), held=())
        elif rare < 0.12:
            step = replace(step, code="ASSIGN_VARIABLE", made=0, held=())
        elif calls and rare < 0.5:
            step = replace(step, code="CALL", calls=(calls.pop(0),), held=())
        plan.steps.append(step)
        values += [(number, position) for position in range(step.made)]
    read = {value for step in plan.steps for value in step.reads}
    plan.outputs = [value for value in values if value not in read] + generator.choices(values, k=1)
    return plan


def altered(generator: Random, step: Step, what: float) -> Step:
    """Return an operator with another code, other constants, inputs or sizes."""
    if what < 0.25 and not step.calls:
        return replace(step, code=generator.choice(ONE[:-2]), held=step.held[:1])
    if what < 0.6 and step.held:
        forms = tuple(replace(one, form=generator.choice(FORMS)) for one in step.held)
        return replace(step, held=forms if what < 0.5 else (Held(generator.randrange(20, 30)),))
    if what < 0.5:
        return replace(step, reads=step.reads[::-1], held=step.held[:1])
    return replace(step, shape=generator.choice(SHAPES)) if what < 0.55 else step


def changed(generator: Random, plan: Plan, share: float) -> Plan:
    """Return what a tool makes of a subgraph; the more, the larger the `share` of what it changes."""
    steps: list[Step] = []
    instead: dict[Value, Value] = {}
    further = 100
    for old in plan.steps:
        step = replace(old, reads=tuple(instead.get(value, value) for value in old.reads))
        what = generator.random() / share
        if what < 0.15 and step.reads and not step.calls:
            instead |= {(step.number, position): step.reads[0] for position in range(step.made)}
            for at, other in enumerate(steps):
                if other.number == step.reads[0][0]:
                    steps[at] = replace(other, names=other.names + step.names)
            continue
        step = altered(generator, step, what)
        if 0.55 < what < 0.6 and step.reads:
            put = Step(further, generator.choice(PUT_IN), step.reads[:1], (), 1, step.shape, (), (further,))
            step = replace(step, reads=((further, 0), *step.reads[1:]))
            steps.append(put)
            further += 1
        elif what < 0.65 and steps and len(step.reads) == len(steps[-1].reads) == 1 and not step.calls:
            last = steps[-1]
            steps[-1] = replace(last, code=step.code, held=step.held, names=step.names) if not last.calls else last
            step = step if last.calls else replace(step, code=last.code, held=last.held, names=last.names)
        steps.append(step)
        if 0.65 < what < 0.8 and step.made:
            steps.append(
                Step(further, generator.choice(PUT_IN), ((step.number, 0),), (), 1, step.shape, (), (further,))
            )
            instead[step.number, 0] = further, 0
            further += 1
        elif 0.8 < what < 0.85 and step.made == 1 and not step.calls:
            steps.append(replace(step, number=further, names=(further,)))
            if generator.random() < 0.5:
                instead[step.number, 0] = further, 0
            further += 1
    new = Plan(list(plan.inputs), in_another_order(generator, steps), [instead.get(one, one) for one in plan.outputs])
    return with_other_ends(generator, new, generator.random() / share)


def with_other_ends(generator: Random, new: Plan, what: float) -> Plan:
    """Return the subgraph, now and then with other inputs or outputs."""
    if what < 0.15:
        generator.shuffle(new.outputs)
    elif what < 0.25 and len(new.outputs) > 1:
        del new.outputs[generator.randrange(len(new.outputs))]
    elif what < 0.35:
        generator.shuffle(new.inputs)
    elif what < 0.45:
        new.inputs.append(-9)
    return new


FORMS = ("plain", "half", "scaled", "turned", "noisy", "small")


def in_another_order(generator: Random, steps: list[Step]) -> list[Step]:
    """Return the steps, now and then in another order in which they can run."""
    if generator.random() < 0.6:
        return steps
    left, ordered, numbers = list(steps), [], {step.number for step in steps}
    done: set[int] = set()
    while left:
        ready = [step for step in left if all(one not in numbers or one in done for one, _ in step.reads)]
        step = generator.choice(ready)
        left.remove(step)
        ordered.append(step)
        done.add(step.number)
    return ordered


def constant(graph: Graph, held: Held) -> int:
    """Append a constant."""
    value = floats(6, 6, seed=held.seed)
    if held.form == "small":
        return graph.constant("", floats(2, seed=held.seed))
    if held.form == "half":
        value = value.astype(np.float16)
    elif held.form == "scaled":
        value = value * floats(6, 1, seed=held.seed + 1)
    elif held.form == "turned":
        value = np.ascontiguousarray(value.T)
    elif held.form == "noisy":
        value = value + np.float32(0.01) * floats(6, 6, seed=held.seed + 2)
    return graph.constant("", value)


Name = Callable[[int, int, Step], str]
"""The name of what a step makes, by its subgraph and its place there."""


def written(plans: list[Plan], order: list[int], name: Name, signature: bool, titles: bool) -> bytes:
    """Return the model, with the subgraphs in an order, of which the first stays the first."""
    build = Build()
    place = {subgraph: at for at, subgraph in enumerate(order)}
    for subgraph in order:
        plan, graph = plans[subgraph], build.graph(f"part{subgraph}" if titles else "")
        values = {(number, 0): graph.tensor(f"x{number}" if titles else "", SHAPES[0]) for number in plan.inputs}
        for at, step in enumerate(plan.steps):
            inputs = [values[one] for one in step.reads] + [constant(graph, one) for one in step.held]
            named = name(subgraph, at, step)
            outputs = [graph.tensor(named if not slot else "", step.shape) for slot in range(step.made)]
            options: dict[str, Any] = {"subgraph": place[step.calls[0]]} if step.calls else {}
            graph.operator(step.code, inputs, outputs, **options)
            values |= {(step.number, slot): tensor for slot, tensor in enumerate(outputs)}
        graph.ends([values[number, 0] for number in plan.inputs], [values[one] for one in plan.outputs])
        if signature:
            ends = [(f"i{number}", values[number, 0]) for number in plan.inputs]
            build.signature(f"s{subgraph}", ends, [(f"o{one}", values[one]) for one in plan.outputs], place[subgraph])
    return build.to_bytes()


def mixed(seed: int) -> tuple[bytes, bytes]:
    """Return a random model, and what a tool made of it."""
    generator = seeded(1000 + seed)
    called = generator.choice((0, 0, 0, 1, 2, 3))
    before = [planned(generator, 2 if called else 4, 7 if called else 12, called)]
    before += [planned(generator, 1, 4) for _ in range(called)]
    share = generator.choice((0.3, 0.6, 1.0))
    after = [changed(generator, plan, share) for plan in before]
    order = list(range(1, called + 1))
    if generator.random() < 0.5:
        generator.shuffle(order)
    kind, path = generator.choice(("same", "same", "none", "joined", "words", "anew")), generator.choice(("", "n/"))

    def old(subgraph: int, at: int, step: Step) -> str:
        return f"{path}{subgraph}.{step.number}" if kind != "none" else ""

    def new(subgraph: int, at: int, step: Step) -> str:
        if kind == "joined":
            return ";".join(f"{path}{subgraph}.{number}" for number in step.names)
        if kind == "words":
            return f"{path}{subgraph}.{step.names[-1]}{WORDS[step.number % len(WORDS)]}"
        return f"{path}{subgraph}.{at}" if kind == "anew" else old(subgraph, at, step)

    signature, titles = generator.random() < 0.3, generator.random() < 0.5
    return (
        written(before, [0, *range(1, called + 1)], old, signature, titles),
        written(after, [0, *order], new, signature, titles),
    )


def mixed_rewrites() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the pairs by name."""
    for seed in range(100):
        yield (f"mixed {seed}", *mixed(seed))
