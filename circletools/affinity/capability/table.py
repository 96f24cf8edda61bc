"""The operators that a device supports, and the reasons why it refuses others.

    xnnpack = ct.affinity.load_capability("xnnpack")        # or your own file, "npu.json"
    with ct.open("model.tflite") as model:
        refused = ct.affinity.refusals(xnnpack, model)      # None or a Refusal, with the reason, for each operator

The library's tables were measured; docs/capabilities.md describes how, and explains the format of tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.capability.comparison import Term
from circletools.affinity.capability.form import ContextRule, Form, Patterns, Places, Rule, Side, forms_of, in_context
from circletools.affinity.capability.traits import OperatorTraits, SubgraphTraits, TensorTraits
from circletools.errors import InvalidInputError
from circletools.graph.build import graph_of
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.wording import Attributes, counted

_MOST_TRIED = 400_000  # takes about two seconds
_MOST_SHOWN = 100  # the maximum number of unmet conditions on tensors to show; an operator may have thousands
_OF_KIND = re.compile(r".* (constant, not (?!.*constant).*computed|computed, not (?!.*computed).*constant)")
_OF_TENSORS = re.compile(r"\d|(input|output) \d+ is ")
_UNSIGNED = re.compile(r"\w+ \d+ is U(INT\d+ \w+).*, not (.+)")


@dataclass(frozen=True, slots=True)
class Refusal(Attributes):
    """The reason why a device refuses an operator, as text.

    `measured` is false if the device was never tested with such an operator, and so may accept it; callers that need
    a definite answer count it as refused. If the reason is a message of the device's program, `conditions` are the
    unmet conditions in the table; `remedy` is a change that helps, if the table has one. `wrong` means that the
    device runs the operator, but computes wrong values.
    """

    reason: str
    measured: bool = True
    conditions: str = ""
    remedy: str = ""
    wrong: bool = False

    def __str__(self) -> str:
        """Return the reason, marked as a guess if it was not measured."""
        return self.reason if self.measured else f"not measured: {self.reason}"


_COMPILED = Refusal(
    "it is a program that Vela compiled for a particular Ethos-U",
    measured=False,
    remedy="run the model in TFLM built with Ethos-U support (`requires --resolver` registers the operator)",
)


@dataclass(frozen=True, eq=False)
class Capability(Attributes):
    """A capability table: the forms in which a device accepts an operator, by operator code name or `*`.

    Custom operators are named `CUSTOM:<custom code>`. `runtime` and `method` describe the measurement, if the table
    states them. `measured` holds the forms with which the device was tested, or None if the table is complete.
    `context` holds the rules about pairs of operators. `rules` take precedence over forms: an operator that a rule
    refuses is refused in any form. `unread` maps an operator code to an input that the device never reads: operators
    needed only for such inputs are not run. `float_model` is the message for float models if the device refuses them.
    """

    device: str
    operators: Mapping[str, tuple[Form, ...]]
    runtime: str = ""
    method: str = ""
    measured: Mapping[str, tuple[Form, ...]] | None = None
    context: tuple[ContextRule, ...] = ()
    rules: tuple[Rule, ...] = ()
    unread: Mapping[str, int] = field(default_factory=dict)
    float_model: str = ""

    def forms(self, code: str) -> tuple[Form, ...]:
        """Return the forms of an operator code, followed by the forms that apply to every operator."""
        return forms_of(self.operators, code)

    def tables(self) -> Iterator[Mapping[str, tuple[Form, ...]]]:
        """Yield the forms by code, from each part of the table."""
        yield from (self.operators, self.measured or {})
        for rule in self.context:
            yield from (rule.first, rule.then, rule.through)

    @cached_property
    def _found(self) -> dict[str, tuple[tuple[Term, ...], int, list[Rule]]]:
        return {}

    def _of(self, code: str) -> tuple[tuple[Term, ...], int, list[Rule]]:
        if code not in self._found:
            forms = [form for table in self.tables() for form in forms_of(table, code)]
            rules = [rule for rule in self.rules if rule.concerns(code)]
            terms = frozenset[Term]().union(*(form.terms for form in forms), *(rule.terms for rule in rules))
            count = sum(bool(form.where) for form in forms) + len(rules)
            self._found[code] = tuple(sorted(terms, key=str)), count, rules
        return self._found[code]

    def terms(self, code: str) -> tuple[Term, ...]:
        """Return the options and tensor properties, besides types and ranks, that the forms of a code read."""
        return self._of(code)[0]

    def conditions(self, code: str) -> int:
        """Return the number of rules, and of forms with conditions on numbers, that are tried for a code."""
        return self._of(code)[1]

    def unpacks(self, code: str) -> bool:
        """Return whether a code has a form whose output counts as a constant."""
        return any(form.unpacks for form in self.forms(code))

    def why_not(self, traits: OperatorTraits) -> Refusal | None:
        """Return why the device refuses an operator, or None if it is accepted.

        The reason is the mismatch with the nearest form or, if the device was not tested with such an operator, the
        difference from the nearest tested one.
        """
        if traits.code == "CUSTOM:ethos-u" and self.device.startswith(("ethos-u", "tflm")):
            return _COMPILED
        for rule in self._of(traits.code)[2]:
            if refusal := refused_by(rule, traits):
                return refusal
        nearest = _nearest(self.forms(traits.code), traits)
        if nearest == []:
            return None
        if self._asked(traits):
            return Refusal("; ".join(nearest) if nearest else f"{self.device} does not support {traits.code}")
        measured = [form for form in (self.measured or {}).get(traits.code, ()) if form.outputs is None]
        asked = (*self.forms(traits.code), *measured)
        return Refusal(untried(_nearest(asked, traits) or nearest or [], traits.code), measured=False)

    def _asked(self, operator: OperatorTraits) -> bool:
        """Return whether the device was tested with such an operator."""
        if self.measured is None:
            return True
        if any(not mismatches(form, operator, any_empty=True) for form in self.forms(operator.code)):
            return False  # everything matches except the rank, which the file does not state
        if any(form.is_unlike(operator) for form in self.forms(operator.code)):
            return False
        found = [form for form in forms_of(self.measured, operator.code) if not mismatches(form, operator)]
        if not operator.is_mixed or any(form.types is None and form.outputs is None for form in found):
            return bool(found)
        return any(form.types for form in found) and any(form.outputs for form in found)


def refusals(capability: Capability, model: Model, subgraph: int = 0) -> list[Refusal | None]:
    """Return why the device refuses each operator of a subgraph, or None if it is accepted.

    Raises IndexError if there is no such subgraph, ModelFormatError if an operator refers to something that does not
    exist, and InvalidInputError if the table has too many conditions to try.
    """
    return why_not(capability, graph_of(model, subgraph))


def why_not(
    capability: Capability,
    facts: Graph,
    constants: Sequence[int] = (),
    returned: bool = False,
    unknown: NDArray[np.bool_] | None = None,
) -> list[Refusal | None]:
    """Return the refusals for a graph, like `refusals` for a model. Tensors in `constants` count as constants.

    With `returned`, operators whose output the graph returns in a wrong shape are refused too. Tensors in the mask
    `unknown` match any type, quantization and rank.
    """
    traits = SubgraphTraits(facts, capability.terms)
    traits.make_constant(constants)
    if unknown is not None:
        traits.forget(unknown)
    kinds, examples = traits.kinds()
    unpacking = _unpack(capability, traits, kinds)
    if unpacking:
        kinds, examples = traits.kinds()
    operators = [traits.operator(example) for example in examples]
    tried = sum(capability.conditions(operator.code) for operator in operators)
    tried += len(capability.context) * (len(operators) + len(facts) // 4)  # which takes a quarter of the time
    most = _MOST_TRIED + 4 * len(facts)  # a larger model may take longer
    if tried > most:
        message = f"{tried:,} conditions would be tried for the model's {len(facts):,} operators"
        raise InvalidInputError(message, location=capability.device, hint=f"the limit is {most:,}")
    of_kind = [capability.why_not(operator) for operator in operators]
    reasons: list[Refusal | None] = np.array([*of_kind, None], np.object_)[kinds].tolist()
    for index in unpacking:
        reasons[index] = None
    _keep_unpacked(traits, unpacking, reasons)

    def on_side(side: Side) -> NDArray[np.bool_]:
        fits = (any(not mismatches(form, each) for form in forms_of(side, each.code)) for each in operators)
        return np.fromiter(fits, np.bool_)[kinds]

    _forget_unread(capability.unread, facts, reasons)
    for index, reason, rule in in_context(capability.context, facts, on_side, returned):
        reasons[index] = reasons[index] or Refusal(reason, remedy=rule.remedy, wrong=rule.wrong)
    return reasons


def _forget_unread(unread: Mapping[str, int], facts: Graph, reasons: list[Refusal | None]) -> None:
    """Accept operators whose results are needed only by inputs that the device never reads."""
    if not any(reasons) or not facts.operators.is_code(*unread).any():
        return
    names = facts.operators.code_names
    needed = set(facts.outputs.tolist())
    slots = enumerate(zip(facts.operands.lists(), facts.results.lists(), strict=True))
    for index, (operands, results) in reversed(list(slots)):
        if results and needed.isdisjoint(results):
            reasons[index] = None
        else:
            place = unread.get(names[index], -1) if reasons[index] is None else -1
            needed.update(value for at, value in enumerate(operands) if at != place)


def _unpack(capability: Capability, traits: SubgraphTraits, kinds: NDArray[np.int64]) -> list[int]:
    """Mark as constants the outputs of operators that unpack constants; return these operators, in order."""
    found: list[int] = []
    made: set[int] = set()
    matches: dict[object, bool] = {}
    for index in traits.with_codes(capability.unpacks):
        # An operator that does not read a new constant keeps its kind.
        key = kinds[index] if made.isdisjoint(traits.inputs.of(index)) else traits.key(index)
        if key not in matches:
            operator = traits.operator(index)
            forms = capability.forms(operator.code)
            matches[key] = any(form.unpacks and not mismatches(form, operator) for form in forms)
        if matches[key]:
            found.append(index)
            traits.make_constant(traits.outputs.of(index))
            made.update(tensor for tensor in traits.outputs.of(index) if tensor >= 0)
    return found


def _keep_unpacked(traits: SubgraphTraits, unpacking: Sequence[int], reasons: list[Refusal | None]) -> None:
    """Refuse each operator that unpacks a constant if an operator that reads the constant is refused."""
    if not unpacking:
        return
    left = np.array([reason is not None for reason in reasons])
    reader = traits.last_reader_among(left)
    for index in unpacking:
        at = max((int(reader[tensor]) for tensor in traits.outputs.of(index) if tensor >= 0), default=index)
        reading = reasons[at] if at > index else None
        if reading is not None:
            words = f"operator {at}, which reads the unpacked constant, is not supported"
            reasons[index] = Refusal(words, reading.measured)


def refused_by(rule: Rule, operator: OperatorTraits) -> Refusal | None:
    """Return why a rule refuses an operator, or None if it does not."""
    if not rule.concerns(operator.code) or (rule.when is not None and mismatches(rule.when, operator)):
        return None
    if rule.when and any(tensor and not tensor.type for tensor in (*operator.inputs, *operator.outputs)):
        return None  # the rule may be about other tensors
    broken = _nearest(rule.needs, operator)
    if broken == []:
        return None
    several = len(rule.needs) > 1 and bool(rule.reason)  # any form would suffice
    conditions = "" if several else "; ".join(broken or ())
    if not rule.known or _is_unseen(broken, operator):
        return Refusal(untried(broken or [], rule.reason), measured=False)
    is_stated = "must be one of" in rule.reason or "quantization parameters" in rule.reason
    shown = re.sub(r", not [^;]+", "", conditions) if is_stated else conditions
    shown = "here " + "; ".join(_values(rule.needs, operator)) if several else shown
    reason = ": ".join(filter(None, (rule.reason.rstrip(".") if shown else rule.reason, shown)))
    return Refusal(reason, conditions=conditions or rule.reason, remedy=rule.remedy, wrong=rule.wrong)


def _values(forms: Sequence[Form], operator: OperatorTraits) -> dict[str, None]:
    """Return the values of an operator that any form refuses; forms for other tensors count only on their own."""
    unmet = [mismatches(form, operator) for form in forms]
    others = [any(map(_OF_TENSORS.match, words)) for words in unmet]
    found: dict[str, None] = {}
    for form, words, other in zip(forms, unmet, others, strict=True):
        if not other or all(others):
            found |= dict.fromkeys(one.split(", not ")[0] for one in words if ", but must be " not in one)
            broken = (one for one in form.where if one.mismatch(operator.settings))
            found |= dict.fromkeys(
                chain.from_iterable(one.values(operator.settings, operator.show) for one in broken)
            )
    return found


def _is_unseen(broken: Sequence[str] | None, operator: OperatorTraits) -> bool:
    """Return whether a condition may hold at run time, because its tensor has no shape in the file."""
    tensors = (*operator.inputs, *operator.outputs)
    shapeless = any(tensor and not tensor.constant and not tensor.rank for tensor in tensors)
    return shapeless and any(".dim" in words and " has no value" in words for words in broken or ())


def _nearest(forms: Sequence[Form], operator: OperatorTraits) -> list[str] | None:
    """Return the unmet conditions of the nearest form, or None if there are no forms."""
    found: list[list[str]] = []
    for form in forms:
        found.append(mismatches(form, operator))
        if not found[-1]:
            return []
    return min(found, key=_distance, default=None)


def untried(found: Sequence[str], code: str) -> str:
    """Describe the untested properties, given the differences of an operator from the nearest tested form."""
    parts = [re.split(r", not |, but must be ", words)[0] for words in found]
    return f"not tested with: {'; '.join(parts)}" if parts else f"{code} was not tested"


def _distance(found: Sequence[str]) -> tuple[int, int, int, int]:
    """Return the distance to a form: types count for less than the number of inputs, and UINT8 is nearest to INT8.

    In a tie, a form with constants and computed tensors in the same places as the operator is nearest.
    """
    unsigned = filter(None, map(_UNSIGNED.fullmatch, found))
    of_count = sum(words[0].isdigit() for words in found)
    of_kind = sum(_OF_KIND.fullmatch(words) is not None for words in found)
    return of_count, sum(one[1] not in one[2] for one in unsigned), len(found), of_kind


def mismatches(form: Form, operator: OperatorTraits, any_empty: bool = False) -> list[str]:
    """Return the unmet conditions of a form as text; empty if the operator matches the form.

    With `any_empty`, an empty shape matches any rank, because it may stand for an unknown shape.
    """
    found = []
    if not form.version.holds(operator.version):
        found.append(f"version {operator.version}, not {form.version}")
    inputs, outputs = operator.inputs, operator.outputs
    for what, tensors, count in (("input", inputs, form.input_count), ("output", outputs, form.output_count)):
        if not count.holds(len(tensors)):
            found.append(f"{counted(len(tensors), what)}, not {count}")
    several = _places("input", form.inputs, inputs), _places("output", form.outputs, outputs)
    for problems in (*several, _each_tensor(form, operator, any_empty)):
        found += islice(problems, _MOST_SHOWN)
    for name, allowed in form.options.items():
        value = operator.settings.get(name, 0)
        if not allowed.holds(value):
            found.append(f"{name} is {allowed.show(value)}, not {allowed.text}")
    found += filter(None, (comparison.mismatch(operator.settings, operator.show) for comparison in form.where))
    return found


def _places(what: str, places: Places | None, tensors: Sequence[TensorTraits | None]) -> Iterator[str]:
    if places is None:
        return
    count = len(places.allowed)
    if len(tensors) < count or (len(tensors) > count and not places.more):
        yield f"{counted(len(tensors), what)}, not {count}{' or more' if places.more else ''}"
        return
    for index, tensor in enumerate(tensors):
        allowed = places.allowed[min(index, count - 1)]
        if not any(pattern.holds(tensor) for pattern in allowed):
            yield f"{what} {index} is {tensor or 'left out'}, not {_either(allowed)}"


def _either(allowed: Patterns) -> str:
    return " or ".join("left out" if pattern.none else str(pattern) for pattern in allowed)


def _each_tensor(form: Form, operator: OperatorTraits, any_empty: bool) -> Iterator[str]:
    """Check the conditions on every computed input and every output."""
    for what, tensors in (("input", operator.inputs), ("output", operator.outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is None or (what == "input" and tensor.constant):
                continue
            if form.types is not None and not any(pattern.holds(tensor) for pattern in form.types):
                yield f"{what} {index} is {tensor}, not {_either(form.types)}"
            if tensor.type and not form.rank.holds(tensor.rank) and (tensor.rank or not any_empty):
                yield f"{what} {index} has rank {tensor.rank}, not {form.rank}"
            if tensor.dynamic > form.open:
                yield f"{what} {index} has an unknown dimension" + " besides the first" * form.open
