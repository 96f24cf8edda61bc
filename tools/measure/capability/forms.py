"""Derive the forms of a table from answers: the fewest conditions that match exactly the accepted probes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from tools.measure.capability.single import Probe, enum_names
from tools.measure.capability.template import LAST_VERSION
from tools.measure.capability.witness import Witness

Answers = Sequence[tuple[Probe | Witness, bool]]
Signature = tuple[tuple[str, ...], tuple[str, ...]]
Form = dict[str, Any]
Box = tuple[frozenset[str], ...]

_COUNTED = ("inputs", "outputs")
_ENUMS = {
    "fused_activation_function": "ActivationFunctionType",
    "padding": "Padding",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "mode": "MirrorPadMode",
}


def operators(answers: Answers) -> dict[str, list[Form]]:
    """Return the forms of each operator that is accepted in some form, by name."""
    by_code: dict[str, list[tuple[Probe | Witness, bool]]] = defaultdict(list)
    for probe, taken in answers:
        by_code[probe.code].append((probe, taken))
    found = {code: forms(by_code[code]) for code in sorted(by_code)}
    return {code: of_code for code, of_code in found.items() if of_code}


def forms(answers: Answers) -> list[Form]:
    """Return the forms of one operator."""
    by_signature: dict[Signature, list[tuple[Probe | Witness, bool]]] = defaultdict(list)
    for probe, taken in answers:
        by_signature[signature(probe)].append((probe, taken))
    alike: dict[str, tuple[Form, list[Signature]]] = {}
    for key, of_signature in by_signature.items():
        # A mix of constants and computed inputs needs at least two of them.
        mixed = {"min_inputs": 2} if key[0][-1:] == ("...",) and len(key[0]) > 2 else {}
        for conditions in ({**mixed, **found} for found in _conditions(of_signature)):
            alike.setdefault(repr(conditions), (conditions, []))[1].append(key)
    return [{**types, **conditions} for conditions, signatures in alike.values() for types in _boxes(signatures)]


def signature(probe: Probe | Witness) -> Signature:
    """Return the types as a table describes them; for any number of inputs or outputs, the distinct ones."""
    inputs, outputs = probe.signature
    if not probe.variadic:
        return inputs, outputs

    def some(texts: tuple[str, ...]) -> tuple[str, ...]:
        return (*sorted(set(texts)), "...") if len(set(texts)) < 2 or len(texts) > 1 else texts

    if probe.code in {"SPLIT", "SPLIT_V", "UNPACK"}:
        return inputs, some(outputs)
    return some(inputs), outputs


def _conditions(answers: Answers) -> Iterator[Form]:
    """Yield the conditions other than types, for one signature."""
    first = min((probe.version for probe, taken in answers if taken and not probe.feature), default=1)
    for options in _options([(probe.settings, taken) for probe, taken in answers if probe.version == first]):
        mine = [(probe, taken) for probe, taken in answers if _fits(probe.settings, options)]
        asked: dict[str, set[Any]] = {key: {probe.settings.get(key, 0) for probe, _ in answers} for key in options}
        counts = _counts(options, asked)
        written = {key: _shown(key, values, asked[key]) for key, values in options.items() if key not in _COUNTED}
        shown = {"options": {key: value for key, value in written.items() if value is not None}}
        static = [(probe, taken) for probe, taken in mine if probe.version == first and not probe.dynamic]
        # Only a shape that is accepted when known shows the effect of not knowing it.
        taken_at = {(probe.ranks, repr(probe.settings)) for probe, taken in static if taken}
        moving = [taken for probe, taken in mine if probe.dynamic and (probe.ranks, repr(probe.settings)) in taken_at]
        for ranks in _ranks(static):
            for versions in _versions(mine):
                yield {
                    **counts,
                    **ranks,
                    **versions,
                    **({} if all(moving) else {"static": True}),
                    **(shown if shown["options"] else {}),
                }


def _scalars(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if isinstance(value, int | float | str)}


def _fits(options: Mapping[str, Any], wanted: Mapping[str, Sequence[Any]]) -> bool:
    return all(options.get(key, 0) in values for key, values in wanted.items())


def _options(points: Sequence[tuple[Mapping[str, Any], bool]]) -> list[dict[str, list[Any]]]:
    """Return the fewest options that separate accepted from refused probes, as a disjunction of conjunctions.

    An assignment that is accepted for some ranks and refused for others counts as accepted.
    """
    settings = [(_scalars(options), taken) for options, taken in points]
    names = sorted({name for options, _ in settings for name in options})
    every = {tuple(options.get(name, 0) for name in names) for options, _ in settings}
    good = {tuple(options.get(name, 0) for name in names) for options, taken in settings if taken}
    bad = every - good
    if not good:
        return []
    for count in range(len(names) + 1):
        for columns in combinations(range(len(names)), count):
            yes = {tuple(row[column] for column in columns) for row in good}
            if not yes & {tuple(row[column] for column in columns) for row in bad}:
                boxes = merged([tuple(frozenset([value]) for value in row) for row in sorted(yes)])
                return [
                    {names[column]: sorted(side) for column, side in zip(columns, box, strict=True)} for box in boxes
                ]
    raise AssertionError("all columns together distinguish every two assignments")


def merged(boxes: Iterable[tuple[frozenset[Any], ...]]) -> list[tuple[frozenset[Any], ...]]:
    """Return fewer boxes with the same points: two boxes that differ in one dimension are merged."""
    found = list(dict.fromkeys(boxes))
    changed = True
    while changed:
        changed = False
        for side in range(max((len(box) for box in found), default=0)):
            groups: dict[Any, list[tuple[frozenset[Any], ...]]] = defaultdict(list)
            for box in found:
                groups[(len(box), box[:side], box[side + 1 :]) if side < len(box) else (box,)].append(box)
            joined = [
                group[0]
                if len(group) == 1
                else (*group[0][:side], frozenset().union(*(box[side] for box in group)), *group[0][side + 1 :])
                for group in groups.values()
            ]
            changed |= len(joined) < len(found)
            found = joined
    return found


def _ranks(answers: Answers) -> list[Form]:
    """Return bounds that include all accepted and no refused probes; several if a single pair cannot."""
    good = {probe.ranks for probe, taken in answers if taken}
    bad = {probe.ranks for probe, taken in answers if not taken} - good
    runs: list[list[tuple[int, int]]] = []
    for pair in sorted(good):
        grown = [*runs[-1], pair] if runs else [pair]
        low, high = min(one for one, _ in grown), max(other for _, other in grown)
        if runs and not any(low <= one and other <= high for one, other in bad):
            runs[-1] = grown
        else:
            runs.append([pair])
    bounds = [(min(one for one, _ in run), max(other for _, other in run)) for run in runs]
    return [{**({"min_rank": low} if low else {}), "max_rank": high} for low, high in bounds]


def _versions(answers: Answers) -> list[Form]:
    asked = {probe.version for probe, _ in answers if probe.feature in {"", "version"}}
    taken = {probe.version for probe, taken in answers if taken and probe.feature in {"", "version"}}
    if taken == asked and len(asked) > 1:
        return [{}]  # none was refused, up to a version above that of any operator
    result, start = [], 0
    for version in range(1, LAST_VERSION + 2):
        if version in taken and not start:
            start = version
        if version not in taken and start:
            end = {} if version > LAST_VERSION else {"max_version": version - 1}
            result.append({**({"min_version": start} if start > 1 else {}), **end})
            start = 0
    return result


def _boxes(signatures: Sequence[Signature]) -> Iterator[Form]:
    """Yield the combined inputs and outputs of these signatures."""
    by_shape: dict[Any, list[Box]] = defaultdict(list)
    for inputs, outputs in signatures:
        several = tuple(index for index, side in enumerate((inputs, outputs)) if side[-1:] == ("...",))
        sides = [_gathered(side) if index in several else tuple(frozenset([text]) for text in side)
                 for index, side in enumerate((inputs, outputs))]  # fmt: skip
        by_shape[len(sides[0]), len(sides[1]), several].append((*sides[0], *sides[1]))
    for (split, _, several), boxes in by_shape.items():
        for box in _repeated(boxes) if several else merged(boxes):
            inputs_, outputs_ = ([_written(side) for side in part] for part in (box[:split], box[split:]))
            more = [["..."] if index in several else [] for index in range(2)]
            yield {"inputs": inputs_ + more[0], "outputs": outputs_ + more[1]}


def _gathered(texts: tuple[str, ...]) -> Box:
    return (frozenset(texts[:-1]),)


def _repeated(boxes: list[Box]) -> list[Box]:
    """Return the boxes, except those contained in another box."""
    unique = list(dict.fromkeys(boxes))
    return [
        box
        for box in unique
        if not any(box != other and all(a <= b for a, b in zip(box, other, strict=True)) for other in unique)
    ]


def _written(side: frozenset[str]) -> str | list[str]:
    """Return the tensors of one place; a tensor that may be computed or constant needs neither word."""
    words = set(side)
    for text in sorted(side):
        stem, _, kind = text.rpartition(" ")
        if kind == "computed" and f"{stem} constant" in words:
            words -= {text, f"{stem} constant"}
            words.add(stem)
    ordered = sorted(words)
    return ordered[0] if len(ordered) == 1 else ordered


def _counts(options: Mapping[str, Sequence[int]], asked: Mapping[str, set[int]]) -> Form:
    """Return the allowed numbers of inputs or outputs, if acceptance depends on them."""
    found: Form = {}
    for what in _COUNTED:
        if what in options and min(options[what]) > min(asked[what]):
            found[f"min_{what}"] = min(options[what])
        if what in options and max(options[what]) < max(asked[what]):
            found[f"max_{what}"] = max(options[what])
    return found


def _shown(option: str, values: Sequence[Any], asked: set[Any]) -> Any:
    """Return the values in the form of a table, or None for all; sizes above a limit become a range."""
    if set(values) == asked:
        return None
    if option in _ENUMS:
        return [next(name for name, number in enum_names(_ENUMS[option]) if number == value) for value in values]
    if (
        len(asked) > 2
        and not isinstance(values[0], str)
        and set(values) == {value for value in asked if value >= min(values)}
    ):
        return {"min": min(values)}
    return list(values)


def mark_unpacking(of_code: Sequence[Form], proven: set[tuple[str, str]]) -> list[Form]:
    """Return forms that state, for these inputs and outputs, that the output counts as a constant."""
    marked: list[Form] = []
    for form in of_code:
        (side,), (made,) = form["inputs"], form["outputs"]
        texts = [other for text in _listed(side) for other in _spelled_out(text)]
        for output, unpacks in product(_listed(made), (True, False)):
            mine = frozenset(text for text in texts if ((text, output) in proven) == unpacks)
            if mine:
                found = {**form, "inputs": [_written(mine)], "outputs": [output]}
                marked.append({**found, "unpacks": True} if unpacks else found)
    return marked


def _listed(side: str | list[str]) -> list[str]:
    return [side] if isinstance(side, str) else side


def _spelled_out(text: str) -> list[str]:
    return [text] if text.endswith(("computed", "constant")) else [f"{text} computed", f"{text} constant"]
