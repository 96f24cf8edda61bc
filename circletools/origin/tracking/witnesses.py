"""Whether equal names can be trusted: the constants and the neighbours of the operators that have them are compared.

    before   RELU a -> FULLY_CONNECTED c -> RELU b      the name `a` is at the end now, where RELU `b` stood:
    after    RELU b -> FULLY_CONNECTED c -> RELU a      `c` speaks against `a`, and against `b`

A neighbour speaks for a pair where it is paired with the neighbour of the other one, and against it where the place
beside its partner is taken by another operator of the same code. An empty place, or one of another code, says
nothing: a tool may have put something in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.side import NONE

_RIGHT = 0.75  # the least share of constants, and of places, that speak for the names


class Witnesses:
    """What speaks for and against the pairs of operators with equal names and codes.

    `contradicted` are the pairs against which something speaks and nothing for them; for and against `silent` ones
    nothing speaks.
    """

    def __init__(self, matcher: Matcher, pairs: Sequence[tuple[int, int]]) -> None:
        """Compare the constants and the neighbours of each pair."""
        self.matcher = matcher
        self.to_after: dict[int, int] = dict(pairs)
        self.inputs: dict[int, int] = {
            int(matcher.views[0].value[old]): int(matcher.views[1].value[new]) for old, new in matcher.anchors.inputs
        }
        self.contradicted: set[tuple[int, int]] = set()
        self.silent: set[tuple[int, int]] = set()
        self.constants: list[bool] = []  # whether each one speaks for its pair
        self.places: list[bool] = []
        for old, new in pairs:
            constants, places = self._constants(old, new), self._places(old, new)
            self.constants += constants
            self.places += places
            if not any((*constants, *places)):
                (self.contradicted if constants or places else self.silent).add((old, new))

    def believed(self) -> bool:
        """Say whether most of what speaks speaks for the names."""
        return all(sum(heard) >= _RIGHT * len(heard) for heard in (self.constants, self.places))

    def _constants(self, old: int, new: int) -> list[bool]:
        held = self.matcher.held[0].get(old), self.matcher.held[1].get(new)
        return [] if held[0] is None or held[1] is None else [not held[0].isdisjoint(held[1])]

    def _places(self, old: int, new: int) -> list[bool]:
        sizes = int(self.matcher.sizes[0][old]), int(self.matcher.sizes[1][new])
        resized = self.matcher.resized or sizes[0] == sizes[1] or 0 in sizes
        heard = [] if resized else [False]
        return heard + self._behind(old, new) + self._before(old, new)

    def _behind(self, old: int, new: int) -> list[bool]:
        """Compare what the two take their inputs from."""
        views, heard = self.matcher.views, []
        for slot, (source, place) in enumerate(zip(views[0].sources[old], views[1].sources[new], strict=False)):
            if source[0] == NONE:
                value = self.inputs.get(source[2], NONE)
            else:
                made = views[1].made[self.to_after[source[0]]] if source[0] in self.to_after else []
                value = made[source[1]] if source[1] < len(made) else NONE
            if value != NONE:
                if place[2] == value:
                    heard.append(True)
                elif self._is_taken(value, slot, new):
                    heard.append(False)
        return heard

    def _is_taken(self, value: int, slot: int, new: int) -> bool:
        codes = self.matcher.after.codes
        return any(at == slot and codes[row] == codes[new] for row, at in self.matcher.views[1].takers.get(value, ()))

    def _before(self, old: int, new: int) -> list[bool]:
        """Compare what takes the outputs of the two."""
        views, codes, heard = self.matcher.views, self.matcher.after.codes, []
        for value in views[0].made[old][:1]:
            for taker, slot in views[0].takers.get(value, ()):
                sources = views[1].sources[self.to_after[taker]] if taker in self.to_after else []
                giver = sources[slot][0] if slot < len(sources) else NONE
                if giver == new:
                    heard.append(True)
                elif giver != NONE and codes[giver] == codes[new]:
                    heard.append(False)
        return heard
