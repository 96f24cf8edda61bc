"""The table: the outcomes in the form of the file."""

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from circletools.wording import ranges
from tools.measure.copying.cases import (
    FORMS,
    KINDS,
    LAST_VERSION,
    OUTCOMES,
    QUANTIZATIONS,
    RESHAPE_VARIANTS,
    RUNTIMES,
    VARIANTS,
    VERSIONS,
    Case,
)
from tools.measure.copying.probes import Results, Unit, is_scalar_transpose

SOURCE = {
    "versions": "github.com/google-ai-edge/LiteRT tflite/converter/tools/versioning/op_version.cc, 119ae633cc86",
    "since": "github.com/google-ai-edge/LiteRT tflite/converter/tools/versioning/runtime_version.cc, 119ae633cc86",
}


def version_cases(operator: str) -> list[Case]:
    """Return the cases that show which versions a runtime accepts."""
    return [Case(operator, "FLOAT32", "none", "static", 2, number) for number in range(1, LAST_VERSION + 1)]


def table(results: Results) -> dict[str, Any]:
    """Return the contents of the file."""
    worst = {runtime: _worst(outcomes) for runtime, outcomes in results.items()}
    return {
        "runtimes": {name: f"{package} {importlib.metadata.version(package)}" for name, package in RUNTIMES.items()},
        "source": SOURCE,
        "kinds": KINDS,
        "quantizations": QUANTIZATIONS,
        "outcomes": OUTCOMES,
        "operators": {operator: _operator(operator, worst) for operator in FORMS},
    }


def _worst(outcomes: Mapping[Unit, str]) -> dict[Case, str]:
    worst: dict[Case, str] = {}
    for (case, _), found in outcomes.items():
        worst[case] = max(worst.get(case, "exact"), found, key=[*OUTCOMES].index)
    return {case: _settled(case, worst) for case in worst}


def _settled(case: Case, worst: Mapping[Case, str]) -> str:
    """Return the outcome; one that depends on uninitialized memory becomes `undefined`.

    A constant is copied only once, which may succeed by chance; feeding a scalar several values reveals the truth.
    """
    fed = worst[replace(case, kind="static")] if is_scalar_transpose(case) else ""
    return "undefined" if fed in {"differs", "crash"} else worst[case]


def _operator(operator: str, worst: Mapping[str, Mapping[Case, str]]) -> dict[str, Any]:
    mine = {runtime: _only(outcomes, operator) for runtime, outcomes in worst.items()}
    entry = {
        "form": FORMS[operator],
        "versions": VERSIONS[operator],
        "loads": {
            runtime: ranges([case.version for case in version_cases(operator) if outcomes[case] == "exact"])
            for runtime, outcomes in worst.items()
        },
        "exact": {runtime: _exact(outcomes) for runtime, outcomes in mine.items()},
        "otherwise": {runtime: _otherwise(outcomes) for runtime, outcomes in mine.items()},
    }
    variants = {
        text: {
            runtime: _exact(_only(outcomes, form)).get("FLOAT32", {}).get("none", {})
            for runtime, outcomes in worst.items()
        }
        for form, text in RESHAPE_VARIANTS.items()
        if form.startswith(operator)
    }
    return entry | ({"variants": variants} if variants else {})


def _only(outcomes: Mapping[Case, str], form: str) -> dict[Case, str]:
    return {case: found for case, found in outcomes.items() if case.form == form and not case.version}


def _exact(outcomes: Mapping[Case, str]) -> dict[str, dict[str, dict[str, str]]]:
    tree: dict[str, dict[str, dict[str, str]]] = {}
    good = [case for case, found in outcomes.items() if found == "exact"]
    for (name, quantization, kind), group in groupby(good, lambda case: (case.type, case.quantization, case.kind)):
        ranks = ranges([case.rank for case in group])
        tree.setdefault(name, {}).setdefault(quantization, {})[kind] = ranks
    return tree


def _otherwise(outcomes: Mapping[Case, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, of_type in groupby(outcomes.items(), lambda item: item[0].type):
        items = [*of_type]
        groups = groupby(items, lambda item: item[0].quantization)
        tree[name] = _uniform(items) or {key: text for key, group in groups if (text := _by_kind([*group]))}
    return {name: text for name, text in tree.items() if text and text != "exact"}


Items = Sequence[tuple[Case, str]]


def _uniform(items: Items) -> str:
    words = {found for _, found in items}
    return words.pop() if len(words) == 1 else ""


def _by_kind(items: Items) -> str | dict[str, str]:
    if word := _uniform(items):
        return "" if word == "exact" else word
    kinds = {kind: _words([*group]) for kind, group in groupby(items, lambda item: item[0].kind)}
    return {kind: text for kind, text in kinds.items() if text}


def _words(items: Items) -> str:
    ranks = {word: [case.rank for case, found in items if found == word] for word in OUTCOMES if word != "exact"}
    return ", ".join(f"{word} {ranges(numbers)}" for word, numbers in ranks.items() if numbers)


def dump(value: Any, indent: str = "") -> str:
    """Return JSON with an innermost object or list on one line."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    # The explanations are for readers, one per line.
    long = sum(len(str(item)) for item in inner) > 200
    if not any(isinstance(item, dict | list) for item in inner) and not long:
        return json.dumps(value)
    deeper = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + json.dumps(item) for item in value) + f"\n{indent}]"
    lines = (f"{deeper}{json.dumps(key)}: {dump(item, deeper)}" for key, item in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def disagreements(results: Results) -> list[str]:
    """Return the cases in which the variants of a runtime disagree."""
    lines = []
    for runtime, outcomes in results.items():
        one, other = VARIANTS[runtime]
        for (case, variant), found in outcomes.items():
            also = outcomes.get((case, other), found)
            if variant == one and also != found and not is_scalar_transpose(case):
                lines.append(f"{runtime}: {case}: {one} {found}, {other} {also}")
    return lines
