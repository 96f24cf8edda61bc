"""Ask LiteRT and onert about mutated models, and compare the answers with the findings of `check`.

    python -m tools.measure.check_mutations FOLDER... [--count 25] [--seed 1] [--list]

Models below 1 MB that LiteRT (for Circle: onert) runs are changed through the object API (`mutations`), `--count`
times each. Refusals by LiteRT without a finding of `check` are counted by LiteRT's message, as are errors that
`check` finds in models that run. A finding that the model had before the change does not count.
"""

import argparse
import contextlib
import importlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from circletools.check import check
from circletools.errors import CircleToolsError
from circletools.model.model import open_model
from tools.measure.isolation import CRASH, answers
from tools.measure.mutations import mutants, pack, unpack

_LARGEST = 1_000_000
_CPU_SECONDS = 4.0
RAN = "ran"
_OWN_RULES = re.compile(r"failed to prepare|failed to invoke")


class Mutant(NamedTuple):
    """A changed model: the original, the change, and the codes of its findings by severity."""

    name: str
    change: str
    data: bytes


def litert(mutant: Mutant) -> str:
    """Return how far LiteRT gets: `ran`, or `load: ...`, `prepare: ...` or `run: ...` with its reason."""
    module = importlib.import_module("ai_edge_litert.interpreter")
    stage = "load"
    try:
        interpreter = module.Interpreter(model_content=mutant.data, num_threads=1)
        stage = "prepare"
        interpreter.allocate_tensors()
        stage = "run"
        for detail in interpreter.get_input_details():
            if detail["dtype"] not in (np.bytes_, np.str_, np.object_):
                interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
        interpreter.invoke()
    except Exception as error:  # the binding raises errors of many classes
        return f"{stage}: {' '.join(str(error).split())}"
    return RAN


def onert(mutant: Mutant) -> str:
    """Return whether onert runs a model."""
    module = importlib.import_module("circletools.runtimes.onert")
    protocol = importlib.import_module("circletools.runtimes.protocol")
    with tempfile.NamedTemporaryFile(suffix=f".{_ending(mutant.data)}") as file:
        file.write(mutant.data)
        file.flush()
        try:
            answer = module.run(protocol.Request("run", file.name, "cpu"))
        except Exception as error:  # any error of the binding
            return repr(error)
    return answer.failure or RAN


def _ending(data: bytes) -> str:
    return "circle" if data[4:8] == b"CIR0" else "tflite"


def ask(program: str, units: list[Mutant]) -> list[str]:
    """Return a program's answer about each model, or "crash"."""
    modules = {"litert": "ai_edge_litert.interpreter", "onert": "circletools.runtimes.onert"}
    question = litert if program == "litert" else onert
    return answers(units, question, lambda: importlib.import_module(modules[program]), _CPU_SECONDS)


def found(data: bytes) -> Counter[tuple[str, str]]:
    """Return the number of `check` findings by severity and code; an unreadable model counts as an error."""
    try:
        with open_model(data) as model:
            return Counter((finding.severity, finding.code) for finding in check(model))
    except CircleToolsError:
        return Counter({("error", "UNREADABLE"): 1})


def _models(folders: list[str]) -> Iterator[tuple[str, bytes]]:
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.*")):
            if path.suffix in (".tflite", ".circle") and path.stat().st_size <= _LARGEST:
                data = path.read_bytes()
                with contextlib.suppress(Exception):  # the published classes cannot write some models
                    yield path.name, pack(unpack(data), data[4:8])


def main() -> None:
    """Make the mutants, ask the programs, and print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print every mutant as a line of JSON")
    options = parser.parse_args()
    bases = [Mutant(name, "", data) for name, data in _models(options.folders)]
    runs = _both(bases)
    bases = [base for base, outcomes in zip(bases, runs, strict=True) if RAN in outcomes.values()]
    units, before = [], []
    for number, base in enumerate(bases):
        known = found(base.data)
        for change, data in mutants(base.data, options.seed * 100_003 + number, options.count):
            units.append(Mutant(base.name, change, data))
            before.append(known)
    _report(len(bases), units, before, options.list)


def _both(units: list[Mutant]) -> list[dict[str, str]]:
    outcomes: list[dict[str, str]] = [{} for _ in units]
    for program in ("litert", "onert"):
        asked = [at for at, one in enumerate(units) if program == "onert" or one.data[4:8] == b"TFL3"]
        for at, answer in zip(asked, ask(program, [units[at] for at in asked]), strict=True):
            outcomes[at][program] = answer
    return outcomes


def _report(bases: int, units: list[Mutant], before: list[Counter[tuple[str, str]]], listed: bool) -> None:
    tally: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for unit, known, outcome in zip(units, before, _both(units), strict=True):
        codes = sorted(code for severity, code in found(unit.data) - known if severity != "info")
        errors = sorted(code for severity, code in found(unit.data) if severity == "error")
        kind = _kind(outcome.get("litert", outcome["onert"]))
        tally[kind] += 1
        tally[f"{kind}: found"] += bool(codes)
        if errors and RAN in outcome.values():
            tally[f"FALSE ERROR {errors[0]}"] += 1
        if kind not in (RAN, "run") and not codes:
            missed[f"{kind}: {_words(outcome.get('litert', outcome['onert']))}"] += 1
        if listed:
            line: dict[str, Any] = {
                "model": unit.name,
                "change": unit.change,
                "codes": codes,
                "errors": errors,
                **outcome,
            }
            print(json.dumps(line))
    print(f"{bases} models, {len(units)} mutants")
    for name, times in sorted(tally.items()):
        print(f"{times:6} {name}")
    for name, times in missed.most_common(40):
        print(f"{times:6} not found: {name}")


def _kind(text: str) -> str:
    """Return the kind of a refusal: by an operator's own rules, or by something else."""
    if text in (RAN, CRASH):
        return text
    stage = text.partition(":")[0]
    return f"{stage}, operator's rules" if stage == "prepare" and _OWN_RULES.search(text) else stage


def _words(text: str) -> str:
    return re.sub(r"\d+", "N", text)[:110]


if __name__ == "__main__":
    main()
