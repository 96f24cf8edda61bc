"""Compare capability tables with the recorded behavior of whole models, and print their accuracy.

    python -m tools.measure.scoreboard MODELS TRUTH                   every target in TRUTH
    python -m tools.measure.scoreboard MODELS TRUTH --only tflm --list
    VELA-PYTHON -m tools.measure.scoreboard MODELS TRUTH --record ethos-u85    ask the program, and record its answers

MODELS is a folder; TRUTH is a folder with a file TARGET.jsonl (or .jsonl.gz) for each target. Each line is about one
model, by `sha256`, with `resident` and, if the program names them, `refused`: the codes of the refused operators. For
a model that proves nothing, since its inputs may be the cause, `resident` is null. Figures are given for each half of
the models: tables may be made from half A, and half B is not used. Models whose names differ only in numbers are
in the same half.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from circletools.affinity.capability.file import load_capability
from circletools.affinity.capability.table import Capability
from circletools.errors import CircleToolsError
from circletools.fit.fit import fit
from circletools.fit.request import FitInputs, FitRequest
from circletools.fit.verdicts import TargetFit
from circletools.model.model import open_model
from tools.measure.capability.whole import PROGRAMS, Answer, ask
from tools.measure.isolation import CRASH, LIMIT, answers

LARGE = 8
"""Models with at least this many operators are counted separately: smaller ones are mostly tests of one operator."""
HEAD = "target half models right not-known right-of-known false-resident false-refused large-right precision recall"
_SECONDS = 600.0

Truth = Mapping[str, Any]


def family(name: str) -> str:
    """Return the name of a model without its hash and numbers."""
    return re.sub(r"\d+", "", re.sub(r"\.[0-9a-f]{6}(?=\.)", "", name))


def half(name: str) -> str:
    """Return the half, A or B, to which a model belongs."""
    return "AB"[hashlib.sha256(family(name).encode()).digest()[0] % 2]


@dataclass(frozen=True)
class Held:
    """The verdicts of `fit` and a program on a model; refusals are operator codes, None if the program has none."""

    name: str
    found: TargetFit
    resident: bool
    refused: frozenset[str] | None

    @property
    def outcome(self) -> str:
        """Whether `fit` is right or does not know, or how it is wrong."""
        if self.found.verdict == "not_known":
            return "not known"
        fits = self.found.verdict == "resident"
        return "right" if fits == self.resident else "false resident" if fits else "false refused"


@dataclass
class Score:
    """The figures for a target in one half of the models."""

    held: list[Held] = field(default_factory=list)

    def row(self) -> list[str]:
        """Return the figures for the columns of the header, from `models` on."""
        count = Counter(one.outcome for one in self.held)
        total = len(self.held)
        large = Counter(one.outcome for one in self.held if one.found.operators >= LARGE)
        table, program, both, unsure = self._refusals()
        return [
            str(total),
            _share(count["right"], total),
            _share(count["not known"], total),
            _share(count["right"], total - count["not known"]),
            str(count["false resident"]),
            str(count["false refused"]),
            f"{_share(large['right'], large.total())}:{large.total()}",
            _share(both, table),
            _share(both, program - unsure),
        ]

    def _refusals(self) -> tuple[int, int, int, int]:
        """Count the codes refused by the table, by the program and by both, and those unknown to the table."""
        table = program = both = unsure = 0
        for one in self.held:
            if one.refused is not None:
                mine = {misfit.code for misfit in one.found.misfits if misfit.measured}
                open_ = {misfit.code for misfit in one.found.misfits if not misfit.measured} - mine
                table += len(mine)
                program += len(one.refused)
                both += len(mine & one.refused)
                unsure += len(open_ & one.refused)
        return table, program, both, unsure

    def contradictions(self) -> Counter[str]:
        """Count the reasons for which the table refuses an operator that the program accepts."""
        found: Counter[str] = Counter()
        for one in self.held:
            reasons = {f"{it.code}: {it.reason}" for it in one.found.misfits if it.measured and _takes(one, it.code)}
            reasons |= {f"model: {it.finding.code}" for it in one.found.obstacles if one.resident}
            found.update(reasons)
        return found


def _takes(held: Held, code: str) -> bool:
    return held.resident or (held.refused is not None and bool(held.refused) and code not in held.refused)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def models_in(folder: Path) -> list[Path]:
    """Return the models below a folder."""
    return sorted(path for name in ("tflite", "circle") for path in folder.rglob(f"*.{name}"))


def truth_of(path: Path) -> dict[str, Truth]:
    """Return the answers in a file, by the SHA-256 of the model."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return {row["sha256"]: row for row in map(json.loads, text.splitlines())}


def held(table: Capability, paths: Iterable[Path], truth: Mapping[str, Truth]) -> Iterator[Held]:
    """Yield the verdicts of table and program on each readable model about which the program was asked."""
    for path in paths:
        row = truth.get(digest(path))
        if row is None or row["resident"] is None:
            continue
        try:
            with open_model(path) as model:
                (found,) = fit(model, FitInputs(FitRequest(on=()), {table.device: table}, None)).targets
        except CircleToolsError:
            continue
        refused = row.get("refused")
        yield Held(path.name, found, row["resident"], None if refused is None else frozenset(refused))


def report(target: str, found: Sequence[Held], details: bool) -> Iterator[str]:
    """Yield the figures for both halves and the contradictions in half A; with `details`, each difference."""
    halves = {name: Score([one for one in found if half(one.name) == name]) for name in "AB"}
    for name, score in halves.items():
        yield " ".join([target, name, *score.row()])
    shown = ("A", "B") if details else ("A",)
    for name in shown:
        for words, count in halves[name].contradictions().most_common(None if details else 5):
            yield f"    {name} contradicted x{count}: {words}"
        for one in halves[name].held if details else ():
            if one.outcome != "right":
                reasons = Counter(f"{it.code}: {it.reason}" for it in one.found.misfits)
                words = "; ".join(f"{text} x{count}" for text, count in reasons.most_common(3))
                yield f"    {name} {one.outcome}: {one.name} ({one.found.operators} operators) {words}"


def record(target: str, paths: Sequence[Path], into: Path) -> None:
    """Ask a target's program about each model, and write its answers.

    After a crash, a model is tried again in a fresh process. A question that was stopped from outside proves nothing.
    """
    program = PROGRAMS[target]
    question = partial(ask, program)

    def asked(several: Sequence[Path]) -> list[str]:
        return answers(several, question, program.prepare, _SECONDS, LIMIT)

    ends: dict[str, Answer] = {
        CRASH: {"resident": False, "words": "died"},
        LIMIT: {"resident": None, "words": "stopped"},
    }
    texts = [asked([path])[0] if text in ends else text for path, text in zip(paths, asked(paths), strict=True)]
    with (into / f"{target}.jsonl").open("w") as file:
        for path, text in zip(paths, texts, strict=True):
            answer = ends.get(text) or json.loads(text)
            file.write(json.dumps({"sha256": digest(path), "name": path.name} | answer) + "\n")


def main() -> None:
    """Print the scoreboard, or record the answers of a program."""
    parser = argparse.ArgumentParser(prog="tools.measure.scoreboard", description=__doc__.split("\n", 1)[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--only", nargs="*", help="these targets")
    parser.add_argument("--list", action="store_true", help="print each difference, of half B too")
    parser.add_argument("--record", choices=PROGRAMS, help="ask the program of this target")
    parser.add_argument("--table", help="the table to hold, if not the one that is built in")
    options = parser.parse_args()
    paths = models_in(options.models)
    if options.record:
        record(options.record, paths, options.truth)
        return
    print(HEAD)
    for file in sorted(options.truth.glob("*.jsonl*")):
        target = file.name.partition(".")[0]
        if not options.only or target in options.only:
            table = load_capability(options.table or target)
            found = list(held(table, paths, truth_of(file)))
            sys.stdout.writelines(f"{line}\n" for line in report(target, found, options.list))


if __name__ == "__main__":
    main()
