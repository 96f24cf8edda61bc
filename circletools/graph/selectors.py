"""Select operators with textual selectors.

    index:0-10,15     by operator index
    name:block1/*     by the name of an output tensor, a glob
    origin:attn.*     by the name of a source, a glob
    op:CONV_2D        by operator code name, a glob; op:* selects all

`1/index:3` applies to subgraph 1 only. Without a prefix, indices refer to subgraph 0; names and codes are searched
in every subgraph.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from itertools import chain
from typing import Literal, get_args

from circletools.errors import InvalidInputError, UsageError
from circletools.graph.graph import ModelGraph
from circletools.model.views import text
from circletools.wording import suggestion

Kind = Literal["index", "name", "origin", "op"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds of selectors, from the most specific to the most general."""

Ranges = tuple[tuple[int, int], ...]
_LONGEST_GLOB = 10_000  # matching takes time quadratic in the length
_MOST_TRIED = 25_000_000  # names tried against all patterns of a request, which takes three seconds
_STEPS = 128  # trying one name takes as long as this many steps of a glob; matching may restart at every character
_MOST_COMPARED = 200_000  # names compared for hints, which takes two seconds
_CHOSEN = 10  # choosing an operator takes as long as trying this many names
_GLOB = re.compile(r"[*?[]")
_SELECTOR = re.compile(r"(?:(\d{1,6})/)?(index|name|origin|op):(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector of operators: `pattern` is a glob, or the text of `ranges` (both ends included) for an index.

    A `literal` pattern is a name without wildcards; an operator with several outputs has the name of the first.
    """

    kind: Kind
    pattern: str
    subgraph: int | None = None
    ranges: Ranges = ()
    literal: bool = False

    def __str__(self) -> str:
        """Return the text of the selector."""
        prefix = "" if self.subgraph is None else f"{self.subgraph}/"
        return f"{prefix}{self.kind}:{self.pattern}"

    @property
    def is_exact(self) -> bool:
        """Whether the pattern may be a full name: a bracket may be part of a name, or begin a set of characters."""
        return self.literal or not re.search(r"[*?]", self.pattern)


def parse_selector(words: str) -> Selector:
    """Read a selector. Raises UsageError."""
    match = _SELECTOR.fullmatch(words)
    if match is None:
        raise UsageError(
            f"{words!r} is not a selector",
            hint=f"write {f'op:{words}; or ' * words.isupper()}index:0-10,15, name:GLOB, origin:GLOB or op:GLOB, "
            "preceded by 1/ for subgraph 1",
        )
    kind = next(kind for kind in KINDS if kind == match[2])
    if kind != "index" and len(match[3]) > _LONGEST_GLOB:
        raise UsageError(f"the pattern has {len(match[3])} characters; at most {_LONGEST_GLOB} are allowed")
    subgraph = None if match[1] is None else int(match[1])
    return Selector(kind, match[3], subgraph, parse_ranges(match[3]) if kind == "index" else ())


def parse_ranges(words: str) -> Ranges:
    """Read `0-10,15` as ((0, 10), (15, 15)). Raises UsageError."""
    ranges = []
    for part in words.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise UsageError(f"{part!r} is not an operator index or range", hint="write, for example, 0-10,15")
        ranges.append((first, last))
    return tuple(ranges)


class Chooser:
    """Finds the operators of a model that match selectors.

    `origins` holds the source names of each operator, by subgraph; without it, no origins are known.
    """

    def __init__(self, model: ModelGraph, origins: Sequence[Mapping[int, Iterable[str]]] = ()) -> None:
        self.model: ModelGraph
        self.model, self._origins = model, origins
        self._operators: dict[tuple[Kind, int, bool], dict[str, list[int]]] = {}
        self._tried = self._compared = 0

    def choose(self, selector: Selector) -> dict[int, list[int]]:
        """Return the matching operators of each subgraph, in order; subgraphs without matches are omitted.

        Raises UsageError if the selector matches nothing, or its index or subgraph does not exist.
        """
        count = len(self.model)
        if selector.subgraph is not None and selector.subgraph >= count:
            raise UsageError(f"{selector}: subgraph {selector.subgraph} does not exist", hint=f"the count is {count}")
        if selector.kind == "index":
            subgraph = selector.subgraph or 0
            return {subgraph: self._by_index(selector, subgraph)}
        every = range(count) if selector.subgraph is None else [selector.subgraph]
        found = {subgraph: self._by_name(selector, subgraph) for subgraph in every}
        if not any(found.values()):
            raise UsageError(f"{selector} matches no operator", hint=self._suggest(selector, every))
        return {subgraph: operators for subgraph, operators in found.items() if operators}

    def _by_index(self, selector: Selector, subgraph: int) -> list[int]:
        count = len(self.model.graphs[subgraph]) if subgraph < len(self.model) else 0
        chosen: set[int] = set()
        for first, last in selector.ranges:
            if last >= count:
                hint = f"subgraph {subgraph} has {count}"
                raise UsageError(f"{selector}: operator {last} does not exist", hint=hint)
            self._count(_CHOSEN * (last + 1 - first), selector)
            chosen.update(range(first, last + 1))
        return sorted(chosen)

    def _count(self, tried: int, selector: Selector) -> None:
        self._tried += tried
        if self._tried > _MOST_TRIED:
            raise InvalidInputError(f"{selector}: all selectors together need more than {_MOST_TRIED:,} comparisons")

    def _by_name(self, selector: Selector, subgraph: int) -> list[int]:
        named = self._named(selector, subgraph)
        found = {*named.get(selector.pattern, [])}  # a name may itself look like a pattern
        if not selector.literal and _GLOB.search(selector.pattern):
            self._count(len(named) + sum(map(len, named)) * len(selector.pattern) // _STEPS, selector)
            matches = re.compile(translate(selector.pattern)).fullmatch
            found.update(one for name, operators in named.items() if matches(name) for one in operators)
        self._count(_CHOSEN * (1 + len(found)), selector)
        return sorted(found)

    def _named(self, selector: Selector, subgraph: int) -> dict[str, list[int]]:
        """Return the operators for each name that the selector can match, in ascending order."""
        key = (selector.kind, subgraph, selector.literal)
        if key not in self._operators:
            found = self._operators[key] = defaultdict[str, list[int]](list)
            for operator, names in enumerate(self._names(selector.kind, subgraph)):
                for name in dict.fromkeys(names[:1] if selector.literal else names):
                    found[name].append(operator)
        return self._operators[key]

    def _names(self, kind: Kind, subgraph: int) -> list[tuple[str, ...]]:
        if kind == "op":
            return [(name,) for name in self.model.graphs[subgraph].operators.code_names]
        if kind == "name":
            return [tuple(map(text, names)) for names in self.model.graphs[subgraph].operators.result_names]
        known = self._origins[subgraph] if subgraph < len(self._origins) else {}
        return [tuple(known.get(operator, ())) for operator in range(len(self.model.graphs[subgraph]))]

    def _suggest(self, selector: Selector, subgraphs: Iterable[int]) -> str:
        known = [self._named(selector, subgraph) for subgraph in subgraphs]
        if self._compared > _MOST_COMPARED:
            return ""
        self._compared += sum(map(len, known))
        names = {*chain.from_iterable(known)}
        if not names:
            return "there are no origins (see embed-origins)" if selector.kind == "origin" else "there are no names"
        return suggestion(selector.pattern, names)
