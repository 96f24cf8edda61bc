"""Hold capability tables against whole models whose behaviour was recorded, and print how right they are.

    python -m tools.measure.scoreboard MODELS TRUTH                   every target that TRUTH knows
    python -m tools.measure.scoreboard MODELS TRUTH --only tflm --list
    VELA-PYTHON -m tools.measure.scoreboard MODELS TRUTH --record ethos-u85    ask the program, and keep its answers

MODELS is a folder, TRUTH one with a file TARGET.jsonl for each target (or .jsonl.gz): a line for each model, by
`sha256`, with `resident` and, where the program names them, `refused`, the codes of the operators it refuses; a model
that proves nothing, as its inputs may be the reason, has `resident` null. Figures stand for both halves of the models
apart: half A is what tables may be made from, half B is not looked at. Models that differ in numbers only are in the
same half.
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
"""Models with this many operators are counted apart: smaller ones are mostly tests of one operator."""
HEAD = "target half models right not-known right-of-known false-resident false-refused large-right precision recall"
_SECONDS = 600.0

Truth = Mapping[str, Any]


def family(name: str) -> str:
    """Return the name of a model without its hash and numbers."""
    return re.sub(r"\d+", "", re.sub(r"\.[0-9a-f]{6}(?=\.)", "", name))


def half(name: str) -> str:
    """Return the half that a model is in, A or B."""
    return "AB"[hashlib.sha256(family(name).encode()).digest()[0] % 2]


@dataclass(frozen=True)
class Held:
    """What `fit` and a program say of a model; refusals are operator codes, None where the program has none."""

    name: str
    found: TargetFit
    resident: bool
    refused: frozenset[str] | None

    @property
    def outcome(self) -> str:
        """Whether `fit` is right, does not know, or how it is wrong."""
        if self.found.verdict == "not_known":
            return "not known"
        said = self.found.verdict == "resident"
        return "right" if said == self.resident else "false resident" if said else "false refused"


@dataclass
class Score:
    """The figures of a target in one half."""

    held: list[Held] = field(default_factory=list)

    def row(self) -> list[str]:
        """Return the figures as the columns of the head, from `models` on."""
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
        """Count the codes refused by the table, by the program, by both, and those the table does not know."""
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
        """Count the reasons for which the table refuses an operator that the program takes."""
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
    """Return the answers of a file by the SHA-256 of the model."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return {row["sha256"]: row for row in map(json.loads, text.splitlines())}


def held(table: Capability, paths: Iterable[Path], truth: Mapping[str, Truth]) -> Iterator[Held]:
    """Yield what table and program say of each model that the program was asked about, and that can be read."""
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
    """Yield the figures of both halves, and what contradicts the table in half A; with details, each difference."""
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
    """Ask the program of a target about each model, and write its answers.

    One that died is asked again, in a process that did nothing before. What was stopped from outside proves nothing.
    """
    program = PROGRAMS[target]
    question = partial(ask, program)

    def asked(several: Sequence[Path]) -> list[str]:
        return answers(several, question, program.prepare, _SECONDS, LIMIT)

    ends: dict[str, Answer] = {
        CRASH: {"resident": False, "words": "died"},
        LIMIT: {"resident": None, "words": "stopped"},
    }
    said = [asked([path])[0] if text in ends else text for path, text in zip(paths, asked(paths), strict=True)]
    with (into / f"{target}.jsonl").open("w") as file:
        for path, text in zip(paths, said, strict=True):
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
