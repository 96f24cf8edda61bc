"""A brief description, by forms, of what a device was asked about, from which a table infers what is unknown."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.measure.capability.forms import merged
from tools.measure.capability.single import QUANTIZABLE, WORDS, Operand, Probe
from tools.measure.capability.template import EVERY

_MOST = 0.75
"""A list with at least this fraction of all types is written as `*`."""


def asked(probes: Iterable[tuple[Probe, Sequence[int]]]) -> list[dict[str, Any]]:
    """Group operators about which the same was asked, given first probes and the ranks of their templates.

    Types, constants and ranks are collected separately: any combination of tested ones counts as tested. But mixes of
    quantized and unquantized tensors have forms of their own, with outputs.
    """
    by_code: dict[str, list[tuple[Probe, Sequence[int]]]] = defaultdict(list)
    for probe, ranks in probes:
        by_code[probe.code].append((probe, ranks))
    return _grouped({code: [_form(of_code), *mixed(of_code)] for code, of_code in by_code.items()})


def mixed(probes: Sequence[tuple[Probe, Sequence[int]]]) -> list[dict[str, Any]]:
    """Return the forms of the probes of one operator with both quantized and unquantized computed tensors."""
    boxes: dict[int, list[tuple[frozenset[str], ...]]] = defaultdict(list)  # by the number of inputs
    for probe, _ in probes:
        if len({operand.quantization == "n" for operand in _computed(probe)}) > 1:
            sides = (*map(_word, probe.inputs), *map(_word, probe.outputs))
            boxes[len(probe.inputs)].append(tuple(frozenset([text]) for text in sides))
    found = []
    for count, some in boxes.items():
        for box in merged(some):
            places = [texts[0] if len(texts) == 1 else texts for texts in map(sorted, box)]
            found.append({"inputs": places[:count], "outputs": places[count:]})
    return found


def _word(operand: Operand) -> str:
    if operand.kind in {"none", "constant"}:
        return "none" if operand.kind == "none" else "* constant"
    return f"* {WORDS[operand.quantization]} computed"


def _computed(probe: Probe) -> list[Operand]:
    return [one for one in (*probe.inputs, *probe.outputs) if one.kind in {"computed", "variable"}]


def joined(before: Iterable[Mapping[str, Any]], later: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups of two measurements; for a code in both, those of the later one."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for groups in (before, later):
        mine: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for group in groups:
            for code in group["operators"]:
                mine[code].append({**group, "operators": []})
        found |= mine
    return _grouped(found)


def _grouped(forms: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for code in sorted(forms):
        for form in forms[code]:
            groups[json.dumps({"operators": [], **form})].append(code)
    ordered = sorted(groups.items(), key=lambda group: group[1])
    return [{**json.loads(form), "operators": codes} for form, codes in ordered]


def _form(probes: Sequence[tuple[Probe, Sequence[int]]]) -> dict[str, Any]:
    inputs = [probe.inputs for probe, _ in probes]
    least, most = min(map(len, inputs)), max(map(len, inputs))
    places = [_place(row[place] for row in inputs if place < len(row)) for place in range(least)]
    if least != most:
        # An operand that may be absent is described together with the one before it.
        places[-1:] = [_place(operand for row in inputs for operand in row[least - 1 :]), "..."]
    computed = [operand for probe, _ in probes for operand in _computed(probe)]
    ranks = {rank for probe, of_template in probes for rank in (*of_template, *probe.ranks)}
    return {"types": _types(computed), "inputs": places, "min_rank": min(ranks), "max_rank": max(ranks)}


def _place(operands: Iterable[Operand]) -> Any:
    """Return the kinds and quantizations of one input; `types` holds the types."""
    found = list(operands)
    texts = ["none"] if any(operand.kind == "none" for operand in found) else []
    present = [operand for operand in found if operand.kind != "none"]
    constant = {operand.kind == "constant" for operand in present}
    kind = "" if len(constant) == 2 else " constant" if True in constant else " computed"
    if True in constant and {operand.element for operand in present} - {"INT32", "INT64"}:
        words = {WORDS[operand.quantization] for operand in present}
        texts += [f"* {word}{kind}" for word in WORDS.values() if word in words]
    elif present:
        texts.append(f"*{kind}")
    return texts[0] if len(texts) == 1 else texts


def _types(operands: Sequence[Operand]) -> list[str]:
    """Return the types of tensors; `*` means almost all types of a quantization."""
    texts: list[str] = []
    for word, every in _all_types().items():
        mine = sorted({operand.element for operand in operands if WORDS[operand.quantization] == word})
        if len(every) > 1 and len(mine) >= _MOST * len(every):
            texts.append(f"* {word}")
        else:
            texts += [f"{one} {word}" if one in QUANTIZABLE else one for one in mine]
    return texts


def _all_types() -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {word: set() for word in WORDS.values()}
    for name in EVERY:
        element, _, kind = name.partition("/")
        found[WORDS[kind or "n"]].add(element)
    return found
