"""Find the operators to which a program refers by index, by operator code, or by the name of an output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from circletools.runtimes.protocol import Placed, Verdict

Operators = tuple[Sequence[str], Sequence[Sequence[bytes]]]
"""The operators of a subgraph: the code name and the output names of each."""

_Place = tuple[int, int]


def located(verdict: Verdict, subgraphs: Sequence[Operators]) -> Verdict:
    """Return a verdict whose operators have the model's indices.

    A reason given only for an operator code is assigned to the refused operators of that code, or to all operators of
    the code if there is one reason for each. Answers that still match several operators, or none, come last and
    without an index; those about subgraphs that the program created are omitted. Operators that the program did not
    name follow if the verdict has a device for `others`.
    """
    index, shown = _Index(subgraphs), _shown(verdict.operators, [len(codes) for codes, _ in subgraphs])
    found: dict[_Place, Placed] = {}
    left: list[Placed] = []
    alone = Counter(_plain(placed.code) for placed in verdict.operators if _by_code_alone(placed))
    for placed in sorted(verdict.operators, key=_by_code_alone):
        places = index.of_code(placed.code) if _by_code_alone(placed) else ()
        refused = [place for place in places if place in found and not found[place].device]
        for place in refused:
            words = " or ".join(filter(None, (found[place].words, placed.words)))
            found[place] = replace(found[place], words=words)
        meant = None if refused else index.place(placed, shown, found, alone)
        if meant is not None and (meant not in found or (placed.words and not found[meant].words)):
            found[meant] = replace(placed, subgraph=meant[0], operator=meant[1])
        elif meant is None and not refused and placed.subgraph is None:
            left.append(replace(placed, subgraph=None, operator=None))
    for subgraph, operator in index.codes if verdict.others else ():
        found.setdefault((subgraph, operator), Placed(verdict.others, "", subgraph, operator))
    return replace(verdict, operators=(*(found[place] for place in sorted(found)), *left))


def _by_code_alone(placed: Placed) -> bool:
    return placed.operator is None and not placed.tensor


def _plain(code: str) -> str:
    return code.removeprefix("CUSTOM ").replace("_", "").upper()


def _only(places: Sequence[_Place]) -> _Place | None:
    return places[0] if len(places) == 1 else None


class _Index:
    """The operators of a model by the names that programs use."""

    def __init__(self, subgraphs: Iterable[Operators]) -> None:
        self.codes: dict[_Place, set[str]] = {}
        self._by_code: dict[str, list[_Place]] = {}
        self._by_tensor: dict[bytes, list[_Place]] = {}
        for subgraph, (codes, outputs) in enumerate(subgraphs):
            for operator, (code, tensors) in enumerate(zip(codes, outputs, strict=True)):
                place = subgraph, operator
                self.codes[place] = set(map(_plain, (code, *code.split(":", 1))))
                for name in self.codes[place]:
                    self._by_code.setdefault(name, []).append(place)
                for tensor in tensors:
                    self._by_tensor.setdefault(tensor, []).append(place)

    def of_code(self, code: str) -> Sequence[_Place]:
        """Return the operators with this code."""
        return self._by_code.get(_plain(code), ())

    def place(
        self, placed: Placed, shown: dict[int, int], found: Container[_Place], alone: Counter[str]
    ) -> _Place | None:
        """Return the operator to which an answer refers; if there are several, the first that is not yet `found`.

        `alone` holds, by code, the number of answers that name only that code.
        """
        if placed.subgraph is not None and placed.operator is not None:
            place = shown.get(placed.subgraph, -1), placed.operator
            return place if place in self.codes else None
        tensor, code = placed.tensor.encode(errors="surrogateescape"), _plain(placed.code)
        if tensor:
            named = self._by_tensor.get(tensor, ())
            # A program may refer to an operator by its fused activation, which has the same output.
            return _only([place for place in named if code in self.codes[place]]) or _only(named)
        of_code = self.of_code(code) if code else self.codes
        fit = [place for place in of_code if placed.operator in {None, place[1]}]
        if len(fit) == 1 or (placed.operator is None and alone[code] != len(fit)):
            return _only(fit)
        return next((place for place in fit if place not in found), None) if fit and fit[0][0] == 0 else None


def _shown(operators: Iterable[Placed], counts: Sequence[int]) -> dict[int, int]:
    """Return, for each subgraph that the program reports, the model's next subgraph with as many operators."""
    sizes = Counter(one.subgraph for one in operators if one.subgraph is not None)
    rest = iter(enumerate(counts))
    found: dict[int, int] = {}
    for ordinal in sorted(sizes):
        subgraph = next((index for index, count in rest if count == sizes[ordinal]), None)
        if subgraph is None:
            break
        found[ordinal] = subgraph
    return found
