"""Finding the operators that a program talks of: by index, by operator code, by the name of an output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from circletools.runtimes.protocol import Placed, Verdict


@dataclass(frozen=True, slots=True)
class Known:
    """An operator of the model, and the names of its outputs."""

    subgraph: int
    operator: int
    code: str
    tensors: tuple[str, ...]

    @property
    def codes(self) -> frozenset[str]:
        """The names that programs have for its code."""
        return frozenset(map(_plain, (self.code, *self.code.split(":", 1))))


def _plain(code: str) -> str:
    return code.removeprefix("CUSTOM ").replace("_", "").upper()


class _Index:
    """The operators of a model by what programs call them."""

    def __init__(self, known: Iterable[Known]) -> None:
        self.codes: dict[tuple[int, int], frozenset[str]] = {}
        self.by_name: dict[str, list[tuple[int, int]]] = {}
        for one in known:
            place = one.subgraph, one.operator
            self.codes[place] = one.codes
            for name in (*(f"code {code}" for code in one.codes), *(f"tensor {name}" for name in one.tensors)):
                self.by_name.setdefault(name, []).append(place)

    def place(self, placed: Placed, subgraphs: dict[int, int]) -> tuple[int, int] | None:
        """Return the one operator that is meant; of several with this index, that of the main subgraph."""
        if placed.subgraph is not None and placed.operator is not None:
            place = subgraphs.get(placed.subgraph, -1), placed.operator
            return place if place in self.codes else None
        code = _plain(placed.code)
        name = f"tensor {placed.tensor}" if placed.tensor else f"code {code}"
        fit = [
            place
            for place in self.by_name.get(name, ())
            if placed.operator in {None, place[1]} and (not code or code in self.codes[place])
        ]
        sure = len(fit) == 1 or (fit and placed.operator is not None and fit[0][0] == 0)
        return fit[0] if sure else None


def located(verdict: Verdict, known: Sequence[Known]) -> Verdict:
    """Return a verdict whose operators are those of the model.

    A reason that goes with an operator code alone is given to the refused operators of that code. What still fits
    several operators, or none, comes last and without an index. Operators that are not named follow where the verdict
    tells the device of `others`.
    """
    index, subgraphs = _Index(known), _subgraphs(verdict.operators, known)
    found: dict[tuple[int, int], Placed] = {}
    left: list[Placed] = []
    for placed in sorted(verdict.operators, key=lambda one: one.operator is None and not one.tensor):
        alone = placed.operator is None and not placed.tensor
        refused = [
            place
            for place in index.by_name.get(f"code {_plain(placed.code)}", ())
            if alone and _refused(found, place)
        ]
        for place in refused:
            words = " or ".join(filter(None, (found[place].words, placed.words)))
            found[place] = replace(found[place], words=words)
        meant = None if refused else index.place(placed, subgraphs)
        if meant is not None and (meant not in found or (placed.words and not found[meant].words)):
            found[meant] = replace(placed, subgraph=meant[0], operator=meant[1])
        elif meant is None and not refused:
            left.append(replace(placed, subgraph=None, operator=None))
    for one in known if verdict.others else ():
        missing = Placed(verdict.others, "", one.subgraph, one.operator, one.code)
        found.setdefault((one.subgraph, one.operator), missing)
    return replace(verdict, operators=(*(found[place] for place in sorted(found)), *left))


def _refused(found: dict[tuple[int, int], Placed], place: tuple[int, int]) -> bool:
    return place in found and not found[place].device


def _subgraphs(operators: Iterable[Placed], known: Iterable[Known]) -> dict[int, int]:
    """Return which subgraph each is that the program showed: the next with as many operators, as it may hide some."""
    shown = Counter(one.subgraph for one in operators if one.subgraph is not None)
    counts = sorted(Counter(one.subgraph for one in known).items())
    found: dict[int, int] = {}
    for ordinal in sorted(shown):
        while counts and counts[0][1] != shown[ordinal]:
            counts.pop(0)
        if not counts:
            break
        found[ordinal] = counts.pop(0)[0]
    return found
