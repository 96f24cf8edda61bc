"""Compare capability tables with the programs themselves, on whole models that no table was made from.

    python -m tools.measure.against_models xnnpack FOLDER...
    VELA-PYTHON -m tools.measure.against_models ethos-u55 FOLDER... --list

For each model: is all of it taken, and which operators are not. A program that dies took nothing; of a model that
loads and then fails, its inputs may be the reason, and it does not count. With --list, also each difference. Run it
with a Python that has the program, as `tools.measure.capabilities`.
"""

import argparse
import contextlib
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from circletools.affinity.capability.file import load_capability
from circletools.affinity.capability.table import Capability, Refusal, why_not
from circletools.errors import CircleToolsError
from circletools.fit.fit import fit
from circletools.fit.request import FitInputs, FitRequest
from circletools.graph.build import graph_of
from circletools.model.model import Model, open_model
from circletools.runtimes.plan import plans
from tools.measure.capability import accelerators
from tools.measure.capability.runtimes import DEVICES, TAKEN, Device
from tools.measure.capability.witness import Whole
from tools.measure.isolation import CRASH, answers

Place = tuple[int, int]
_ACCELERATORS = {name: ("vela", variant, "npu") for name, variant in accelerators.CONFIGURATIONS.items()}
_ACCELERATORS["litert-gpu"] = ("litert_gpu", "", "gpu")
"""By table: the adapter that is asked about whole models, its variant, and what it calls the device."""
_SECONDS = 60.0


def ask_whole(device: Device, path: Path) -> str:
    """Return as JSON whether a program takes a whole model, and what it refused."""
    data = path.read_bytes()
    try:
        if device.name == "xnnpack":
            return json.dumps(_partitions(data))
        if device.name in _ACCELERATORS:
            analyzer = {"analyzer": _analyzer_takes(path)} if device.name == "litert-gpu" else {}
            return json.dumps(_on_accelerator(path, *_ACCELERATORS[device.name]) | analyzer)
    except Exception as error:  # whatever a program raises of a model: it does not take it
        return json.dumps({"resident": False, "error": repr(error)[:200]})
    outcome = device.ask(Whole(data))
    return json.dumps({"resident": outcome == TAKEN, "error": outcome})


def _partitions(data: bytes) -> dict[str, Any]:
    """Return what is in the partitions of LiteRT's default delegate, by subgraph."""
    litert = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=data, num_threads=1)
    with contextlib.suppress(RuntimeError, ValueError):
        interpreter.allocate_tensors()  # that an operator is missing shows after the delegate took its own
    found = plans(interpreter)
    left = [[at, step.operators[0]] for at, plan in enumerate(found) for step in plan if not step.delegate]
    return {"resident": not left, "places": left, "subgraphs": len(found)}


def _on_accelerator(path: Path, program: str, variant: str, device: str) -> dict[str, Any]:
    """Return what a program does not put on a device, with its reasons."""
    placed = accelerators.placed_by(program, variant, path.read_bytes())
    left = {place: words for place, (found, words) in placed.items() if found != device}
    subgraphs = 1 + max((at for at, _ in placed), default=0)
    return {"resident": not left, "places": list(left), "words": list(left.values()), "subgraphs": subgraphs}


def _analyzer_takes(path: Path) -> bool:
    """Return what LiteRT's model analyzer says of the GPU delegate."""
    analyzer = importlib.import_module("ai_edge_litert._pywrap_analyzer_wrapper")
    return "looks compatible with GPU delegate" in analyzer.ModelAnalyzer(str(path), True, True)


@dataclass(frozen=True)
class Compared:
    """One model: what the program, `fit` and the table say; `operators` are those of the program's answer."""

    path: Path
    program: dict[str, Any]
    verdict: str
    refused: dict[Place, Refusal]
    operators: int
    wrong: tuple[str, ...]
    both: int
    by_program: int
    by_table: int

    @property
    def is_right(self) -> bool:
        """Whether the program and `fit` agree about the whole model."""
        return bool(self.program["resident"]) == (self.verdict == "resident")


def compared(table: Capability, path: Path, program: dict[str, Any]) -> Compared | None:
    """Return how table and program agree, None for a model that cannot be read, is empty or does not count."""
    if program.get("error") == "run":
        return None
    try:
        with open_model(path) as model:
            count = program.get("subgraphs", len(model.subgraphs))
            refused = {
                (subgraph, index): refusal
                for subgraph in range(count)
                for index, refusal in enumerate(why_not(table, graph_of(model, subgraph)))
                if refusal is not None
            }
            operators = sum(len(model.subgraphs[subgraph].operators) for subgraph in range(count))
            if not operators:
                return None
            one, other, words = _sides(model, program, set(refused))
            differ = [
                f"{words(key)}: {'only the program' if key in one else _why(refused, key)}"
                for key in sorted(one ^ other)
            ]
            sizes = len(one & other), len(one), len(other)
            (target,) = fit(model, FitInputs(FitRequest(on=()), {table.device: table}, None)).targets
            return Compared(path, program, target.verdict, refused, operators, tuple(differ), *sizes)
    except CircleToolsError:
        return None


def _why(refused: dict[Place, Refusal], key: Any) -> str:
    return f"only the table: {refused[key]}" if key in refused else "only the table"


def _sides(
    model: Model, program: dict[str, Any], mine: set[Place]
) -> tuple[set[Any], set[Any], Callable[[Any], str]]:
    """Return what the program refused and what the table refuses, in words that both have."""

    def code(place: Place) -> str:
        return model.subgraphs[place[0]].operators[place[1]].code.name

    if "places" in program:
        left = [(at, step) for at, step in program["places"]]
        return set(_refused(left, program.get("words"), mine)), mine, lambda place: f"{place} {code(place)}"
    return set(), set(), str


def _refused(left: Sequence[Place], words: Sequence[str] | None, mine: set[Place]) -> Iterator[Place]:
    """Yield what a program refuses of what it left.

    LiteRT's GPU delegate takes one group of operators, and leaves others that it would take without a word. It gives
    its reasons by operator code: of those with the same reason, those that the table takes may be among the former,
    where it refuses another one.
    """
    known = {reason for place, reason in zip(left, words or (), strict=False) if place in mine}
    for place, reason in zip(left, words or ["-"] * len(left), strict=True):
        if reason and (place in mine or reason not in known):
            yield place


def models_of(device: Device, folders: Sequence[str]) -> list[Path]:
    """Return the models in these folders, in the formats that a device reads."""
    formats = ("tflite", "circle") if device.package == "onert" else ("tflite",)
    return sorted(path for folder in folders for name in formats for path in Path(folder).rglob(f"*.{name}"))


def lines(device: Device, found: Sequence[Compared], details: bool) -> Iterator[str]:
    """Yield the figures of all models, and with `details` each difference."""
    if not found:
        yield f"{device.name}: no models to compare with"
        return
    for one in found if details else ():
        if not one.is_right or one.wrong:
            unknown = sum(not refusal.measured for refusal in one.refused.values())
            says = f"{one.verdict}, {len(one.refused)} refused, {unknown} of them not measured"
            program = "taken" if one.program["resident"] else one.program.get("error", "not taken")
            yield f"{one.path.name}: program: {program}; fit: {says}"
            yield from (f"    {words} x{count}" for words, count in Counter(one.wrong).items())
    right = sum(one.is_right for one in found)
    taken = sum(bool(one.program["resident"]) for one in found)
    false = [one.path.name for one in found if not one.is_right and one.verdict == "resident"]
    yield f"{device.name}: {right} of {len(found)} models right ({right / len(found):.2%}), {taken} are taken whole"
    yield f"resident for fit only: {len(false)} {' '.join(false)}"
    analyzed = [one.program for one in found if "analyzer" in one.program]
    if analyzed:
        right = sum(one["analyzer"] == one["resident"] for one in analyzed)
        said = sum(one["analyzer"] for one in analyzed)
        yield f"LiteRT's analyzer: {right} of {len(analyzed)} models right, it says that {said} are taken whole"
    known = [one for one in found if "places" in one.program]
    if known:
        both, program, table = (
            sum(getattr(one, name) for one in known) for name in ("both", "by_program", "by_table")
        )
        total = sum(one.operators for one in known)
        yield f"refused: {both} by both, {program} by the program, {table} by the table, of {total} operators"
        yield f"precision {both / max(table, 1):.4f}, recall {both / max(program, 1):.4f}"
        yield f"models with the same refusals: {sum(not one.wrong for one in known)} of {len(known)}"


def main() -> None:
    """Ask the program about each model, and print how the table agrees."""
    parser = argparse.ArgumentParser(prog="tools.measure.against_models", description=__doc__.split("\n", 1)[0])
    parser.add_argument("device", choices=[device.name for device in DEVICES])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--list", action="store_true", help="print each difference")
    parser.add_argument("--table", help="the table to compare, if not the one that is built in")
    options = parser.parse_args()
    device = next(device for device in DEVICES if device.name == options.device)
    paths = models_of(device, options.folders)
    said = answers(paths, partial(ask_whole, device), device.prepare, cpu_seconds=_SECONDS)
    table = load_capability(options.table or device.name)
    programs = [{"resident": False, "error": "died"} if text == CRASH else json.loads(text) for text in said]
    found = [compared(table, path, program) for path, program in zip(paths, programs, strict=True)]
    sys.stdout.writelines(f"{line}\n" for line in lines(device, [one for one in found if one], options.list))


if __name__ == "__main__":
    main()
