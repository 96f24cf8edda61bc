"""Remedies: how to change a model, depending on why a capability table refuses an operator.

    input 0 has rank 5, not 0 to 4; input 1 has rank 5, not 0 to 4  ->  reshape input 0 and input 1 to at most rank 4

The reasons are worded as in `affinity.capability.table`; an unknown condition gets a general remedy.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from circletools.affinity.capability.table import Refusal
from circletools.graph.graph import Graph
from circletools.graph.reach import Reach
from circletools.parts.names import TensorNames
from circletools.shapes.infer import Shapes, fixed_shapes
from circletools.shapes.sized import Assuming

MEASURE = "measure the operator as docs/measure-a-device.md describes"
FIX_SHAPES = "convert the model with fixed input shapes, so that its shape arithmetic becomes constant"
FIX_SIZES = "make its sizes constant: `set-shape --static`, then `compact --prune --outputs`"
FOLD = "fold its constant sizes: `compact --prune --outputs`"
_MOST_CUTS, _LONGEST = 4, 60  # tensors, and characters of a name, in a command
GENERAL = "change the property that the reason names"

_PLACE = r"(?P<place>(?:input|output) \d+)"
_LEFT, _SIGN = "(?P<left>.+)", "(?P<sign><=|>=|==|<|>)"
_OF_ANOTHER = r"(?P<other>operator \d+), which reads the unpacked constant, is not supported"
_IN_CONTEXT = r"it reads an (?P<end>output|input) of (?P<other>operator \d+, \S+): .+"
_APART = {
    "output": "put another operator between it and {}, or replace one of the two",
    "input": "give it an input other than {}, or replace one of the two",
}
_LEFT_OUT = "left out"
_STATE = "make the state an input and an output of the model"
_UNSUPPORTED = dict.fromkeys(("ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE"), _STATE)
_UNSUPPORTED["DENSIFY"] = "export the model with dense weights"
_UNPACKING = "DEQUANTIZE"
_FOLLOWED = {False: "the only one that", True: "which"}
_INDEXED = frozenset({"DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "GATHER", "GATHER_ND", "ONE_HOT", "SCATTER_ND"})


def remedy_of(refusal: Refusal, code: str, of_sizes: str = "", program: str = "") -> str:
    """Return the change that makes a target support an operator: that of `size_remedies`, if any.

    `program` is the program, if any, that can test an operator that was not measured.
    """
    if of_sizes or not refusal.measured:
        test = f"test with {program} itself (`fit --with {program}`), or " if program else ""
        return of_sizes or refusal.remedy or f"{test}{MEASURE}"
    return refusal.remedy or _remedy(refusal.conditions or refusal.reason, code)


def size_remedies(
    facts: Graph, refusals: Mapping[int, Refusal], sizes: Callable[[Graph], Shapes | None] = fixed_shapes
) -> dict[int, str]:
    """Return the remedies of refused operators that compute sizes, read computed sizes, or have unknown dimensions.

    They depend on where the sizes come from: shapes of inputs, arithmetic that is not followed, or values. Operators
    that `needed_by` returns have remedies, too. `sizes` is `fixed_shapes`, which may be cached.
    """
    codes, values = facts.operators.code_names, facts.values
    wanted = {operator for operator, one in refusals.items() if "an unknown dimension" in one.reason}
    fixed = sizes(facts) if wanted or "SHAPE" in codes else None
    found = {
        at: f"first change operator {other} ({codes[other]}), {_FOLLOWED[codes[at] == _UNPACKING]} uses its result"
        for at, other in needed_by(facts, refusals).items()
    }
    if fixed is None:
        return found
    derived, late, cut = set[int](), set[int](), list[int]()  # late: tensors whose sizes depend on more than shapes
    opens = [-1 in (*shape, *values.shape_signatures.row(at)) for at, shape in enumerate(values.shapes.lists())]
    rows = zip(codes, facts.operands.lists(), facts.results.lists(), strict=True)
    for operator, (code, read, made) in enumerate(rows):
        computed = {value for value in read if value >= 0 and not values.is_constant[value]}
        of_sizes = {*made} if code == "SHAPE" else derived & computed
        if is_arithmetic := code == "SHAPE" or (bool(of_sizes) and computed <= derived):
            derived.update(made)
        unknown = any(value >= 0 and opens[value] and not fixed.shapes.get((facts.index, value)) for value in made)
        if unknown or (is_arithmetic and not late.isdisjoint(read)):
            late.update(made)
        if operator in refusals and (of_sizes or operator in wanted):
            is_known = all((facts.index, value) in fixed.values for value in of_sizes)
            found[operator] = (FIX_SIZES if any(opens) else FOLD) if is_known else FIX_SHAPES
            cut += [] if late.isdisjoint((*read, *made)) else [operator]
    return found | dict.fromkeys(cut, _cut(facts, opens) if cut else "")


def _cut(facts: Graph, opens: Sequence[bool]) -> str:
    """Return how to cut a graph behind the last operators whose output sizes depend on values, and to set the sizes.

    Without such operators, sizes of inputs are unknown. Options are as they must be typed, with N for these sizes.
    """
    reach, names, given = Reach(facts), TensorNames(facts), facts.inputs.tolist()
    last = sorted(operator for index, operator in Assuming(facts).sized if index == facts.index)
    ends = set(reach.made_by(last)) if last else {one for one in given if one >= 0 and opens[one]}
    rest = reach.behind([one for one in facts.outputs.tolist() if 0 <= one < len(opens)], ends)
    tensors = [one for one in dict.fromkeys(reach.read_by(sorted(rest))) if one in ends]
    if not 0 < len(tensors) <= _MOST_CUTS:
        where = f"that operator {last[0]} ({facts.operators.code_names[last[0]]}) reads" if last else "of inputs"
        return f"its sizes are values {where}: convert the model with constants in their place"
    extracting, setting = "", ""
    for place, tensor in enumerate(tensors):
        name, view = names.names[tensor], facts.model.subgraphs[facts.index].tensors[tensor]
        is_plain = name.isprintable() and not name.isdecimal() and names.found[name] == [tensor]
        typed = shlex.quote(name) if is_plain and 0 < len(name) <= _LONGEST else ""
        extracting += f" --from {typed or f'index:{tensor}'}"
        sizes = ",".join("N" if size < 0 else str(size) for size in view.open_shape)
        setting += f" --input {typed or (place if last else given.index(tensor))}={sizes}" if opens[tensor] else ""
    extracting += f" --subgraph {facts.index}" if facts.index else ""
    setting = f"set each size N with `set-shape --static{setting}`" if setting else "`set-shape --static`"
    start = f"cut it with `extract{extracting}`, " if last else ""
    return f"its sizes are known only at run time: {start}{setting}, then `compact --prune --outputs`"


def needed_by(facts: Graph, refusals: Mapping[int, Refusal]) -> dict[int, int]:
    """Return the refused operators that are only needed by other refused operators, each with one of these.

    They compute indices for one operator, or are a DEQUANTIZE. If the model is changed so that the other operator is
    gone or quantized, they usually are gone, too.
    """
    codes, measured = facts.operators.code_names, {at for at, one in refusals.items() if one.measured}
    if facts.disorder:
        return {}
    results, returned = facts.results.lists(), set(facts.outputs.tolist())
    unpacking = [at for at in measured if codes[at] == _UNPACKING and returned.isdisjoint(results[at])]
    after = {at: facts.dag.successors[at] for at in unpacking}
    found = {at: min(readers) for at, readers in after.items() if readers and measured.issuperset(readers)}
    is_index = facts.values.is_type("INT32", "INT64", "BOOL")
    is_index[[one for one in returned if 0 <= one < len(is_index)]] = False
    if not any(made and is_index[made].all() for made in map(results.__getitem__, refusals)):
        return found
    readers: dict[int, int] = {}  # -1: several operators, or none
    for operator in reversed(facts.dag.order):
        if is_index[results[operator]].all():
            last = {readers.get(one, one) for one in facts.dag.successors[operator]}
            readers[operator] = last.pop() if len(last) == 1 else -1
    needed = {operator: readers.get(operator, -1) for operator in measured}
    return found | {at: reader for at, reader in needed.items() if reader in needed and codes[reader] in _INDEXED}


@cache
def is_consequence(reason: str) -> bool:
    """Return whether an operator is refused only because another operator is refused."""
    return re.fullmatch(_OF_ANOTHER, reason) is not None


@cache
def _remedy(reason: str, code: str) -> str:
    device, unsupported, refused = reason.partition(" does not support ")
    if unsupported and refused == code:
        return _UNSUPPORTED.get(code, f"replace {code} with operators that {device} supports")
    if context := re.fullmatch(_IN_CONTEXT, reason):
        return _APART[context["end"]].format(context["other"])
    places: dict[str, list[str]] = {}  # grouped by remedy
    for condition in reason.split("; "):
        words, place = _of_condition(condition)
        if code == "RESHAPE" and place == "output 0":
            words = words.replace("reshape @ ", "reshape ")
        places.setdefault(words, []).append(place)
    listed = ((words, ", ".join(named).rsplit(", ", 1)) for words, named in places.items())
    return "; ".join(words.replace("@", " and ".join(parts)) for words, parts in listed)


def _of_condition(condition: str) -> tuple[str, str]:
    """Return the remedy for one condition, with @ in place of the tensor, and the tensor."""
    for words in (condition.rpartition(": ")[2], condition):  # a message of the program may precede the condition
        for pattern, remedy in _REMEDIES:
            found = re.fullmatch(pattern, words)
            if found:
                return remedy(**found.groupdict()), found.groupdict().get("place", "")
    return GENERAL, ""


def _rank(place: str, rank: str, allowed: str) -> str:
    low, _, high = allowed.removeprefix("at least ").partition(" to ")
    if low == allowed and not high:
        return f"reshape @ to rank {low}"
    return f"reshape @ to at least rank {low}" if int(rank) < int(low) else f"reshape @ to at most rank {high}"


def _tensor(place: str, tensor: str, allowed: str) -> str:
    wanted = [one for one in allowed.split(" or ") if one != _LEFT_OUT]
    without = "" if len(wanted) == len(allowed.split(" or ")) else ", or leave it out"
    if not wanted:
        return "leave out @"
    if tensor == _LEFT_OUT:
        return f"give it @ as {' or '.join(wanted)}"
    traits, _, kind = tensor.rpartition(" ")
    for other, make in (("constant", "make @ a constant"), ("computed", "compute @ at run time")):
        if other != kind and place.startswith("input") and any(_covers(one, f"{traits} {other}") for one in wanted):
            return make + without
    own, _, quantization = traits.partition(" ")
    if quantization == "unquantized" and any(one.startswith(f"{own} per_") for one in wanted):
        return "give @ quantization parameters" + without
    types = " or ".join(one.removesuffix(f" {kind}") for one in wanted)
    is_hybrid = kind == "constant" and " per_" in tensor and all(one.startswith("FLOAT") for one in wanted)
    return f"convert @ to {types}{without}" + ", or quantize the activations too" * is_hybrid


def _covers(allowed: str, tensor: str) -> bool:
    """Return whether a tensor matches an entry in a table; both are a type followed by other words."""
    kind, *words = allowed.split()
    own, *described = tensor.split()
    return kind in ("*", own) and set(words) <= {*described, "unquantized"}


def _comparison(left: str, sign: str, right: str) -> str:
    of_scales = ".scale" in left or ".zero_point" in left
    return f"{'quantize' if of_scales else 'change'} it so that {left} {sign} {right}"


_REMEDIES: tuple[tuple[str, Callable[..., str]], ...] = (
    (r"version \d+, not (?P<allowed>.+)", "convert it to version {allowed}".format),
    (r"[\d,]+ (?P<what>input|output)s?, not 1", "give it 1 {what}".format),
    (r"[\d,]+ (?P<what>input|output)s?, not (?P<allowed>.+)", "give it {allowed} {what}s".format),
    (rf"{_PLACE} has rank (?P<rank>\d+), not (?P<allowed>.+)", _rank),
    (rf"{_PLACE} has an unknown dimension(?: besides the first)?", lambda place: "fix the shape of @"),
    (rf"{_PLACE} is (?P<tensor>.+), not (?P<allowed>.+)", _tensor),
    (r"(?P<name>\w+) is (?P<value>.+), not (?P<allowed>.+)", "set {name} to {allowed}".format),
    (rf"{_LEFT} is \S+, but must be {_SIGN} (?P<right>.+?)(?: \(\S+\))?", _comparison),
    (rf"{_LEFT} has no value, but must be {_SIGN} (?P<right>.+)", _comparison),
    (_OF_ANOTHER, "change {other}".format),
)
