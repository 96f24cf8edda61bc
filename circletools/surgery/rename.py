"""Rename tensors, signatures, their inputs and outputs, and metadata entries.

All renames of a request are done in one step, so two names can be swapped. The stamps of origins and affinity are
updated, and signature entries that had the name of their tensor are renamed with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.edit.signatures import SIDES, Direction
from circletools.errors import EditError, UsageError
from circletools.graph.build import model_graph
from circletools.parts.names import INDEX, TensorNames, graph_at, quoted
from circletools.wording import Attributes, counted, suggestion

_LONGEST_GLOB = 10_000
Pair = str | tuple[str, str]
"""An old and a new name, or both in one string, as in `OLD=NEW`."""


def strip_names(edit: ModelEdit) -> RewriteResult:
    """Remove the names of all tensors, which take up flash memory on a device; signatures keep their names."""
    graphs = model_graph(edit.model).graphs
    named = [(graph.index, value) for graph in graphs for value, name in enumerate(graph.values.names) if name]
    for subgraph, value in named:
        edit.rename_tensor(subgraph, value, None)
    return RewriteResult((f"names of {counted(len(named), 'tensor')} removed",) if named else ())


@dataclass(frozen=True, slots=True)
class RenameRequest(Attributes):
    r"""A request to rename; every field holds pairs of old and new names.

    `tensors` are given by name, by a glob (each `*` in the new name stands for the text that the next `*` or `?`
    matches), or by `index:12` or `1/index:12`; with `regex`, by a regular expression for the whole name, and the new
    name can contain `\1`. All subgraphs are searched, or only `subgraph`. `inputs` and `outputs` are given by
    position; the tensor and its signature entries get the new name. `signatures` are given by key, and
    `signature_inputs` and `signature_outputs` by the entry's name, or by `KEY/NAME` for one signature.
    """

    tensors: tuple[Pair, ...] = ()
    inputs: tuple[Pair, ...] = ()
    outputs: tuple[Pair, ...] = ()
    signatures: tuple[Pair, ...] = ()
    signature_inputs: tuple[Pair, ...] = ()
    signature_outputs: tuple[Pair, ...] = ()
    regex: bool = False
    subgraph: int | None = None


def rename(edit: ModelEdit, request: RenameRequest) -> RewriteResult:
    """Apply the renames of a request to an edit.

    Raises UsageError if an old name does not exist, and EditError if a new one already exists.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     request = ct.surgery.RenameRequest(inputs=("0=image",), signatures=("serving_default=detect",))
    ...     ct.surgery.rename(edit, request)
    ...     edit.save("out.tflite")
    """
    tensors = _Tensors(edit, request)
    changes = []
    for (subgraph, tensor), name in sorted(tensors.new.items()):
        if (old := tensors.names[subgraph].names[tensor]) != name:
            edit.rename_tensor(subgraph, tensor, name)
            changes.append(f"subgraphs[{subgraph}].tensors[{tensor}]: {quoted(old)} -> {quoted(name)}")
    changes += _rename_entries(edit, request, tensors)
    for index, old, name in _renamed([one.key for one in edit.signatures.now], request.signatures, "signature"):
        edit.signatures.rename(index, name)
        changes.append(f"signatures[{index}]: {quoted(old)} -> {quoted(name)}")
    return RewriteResult(tuple(changes))


def split_pair(pair: Pair, known: Container[str] = ()) -> tuple[str, str]:
    """Return the old and the new name; if a name contains `=`, the old name must be in `known`.

    Raises UsageError if there is no `=`, or the pair is ambiguous.
    """
    if not isinstance(pair, str):
        return pair
    places = [at for at, character in enumerate(pair) if character == "="]
    if not places:
        raise UsageError(f"{quoted(pair)} has no =", hint="write OLD=NEW")
    fitting = [at for at in places if pair[:at] in known]
    if len(fitting) > 1:
        raise UsageError(f"{quoted(pair)} can be split in {len(fitting)} ways", hint="name a tensor by index:N")
    at = (fitting or places)[0]
    return pair[:at], pair[at + 1 :]


class _Tensors:
    """The renamed tensors: (subgraph, tensor) -> new name; `ends` holds those renamed by position, by side."""

    def __init__(self, edit: ModelEdit, request: RenameRequest) -> None:
        self._edit, self._graphs = edit, model_graph(edit.model)
        self.new, self.names = dict[tuple[int, int], str](), dict[int, TensorNames]()
        self.ends = dict[tuple[Direction, int, int], str]()
        if not (request.tensors or request.inputs or request.outputs):
            return
        for subgraph in range(len(self._graphs)) if request.subgraph is None else [request.subgraph]:
            self._read(subgraph)
        known = {name for names in self.names.values() for name in names.found}
        for pair in request.tensors:
            self._by_name(*split_pair(pair, known), known, regex=request.regex)
        for side, pairs in zip(SIDES, (request.inputs, request.outputs), strict=True):
            for pair in pairs:
                self._by_position(*split_pair(pair), side, request.subgraph or 0)
        self._check_names()

    def _read(self, subgraph: int) -> TensorNames:
        if subgraph not in self.names:
            self.names[subgraph] = TensorNames(graph_at(self._graphs, subgraph), self._edit.new_names)
        return self.names[subgraph]

    def _add(self, subgraph: int, tensor: int, name: str) -> None:
        known = self.new.setdefault((subgraph, tensor), name)
        if known != name:
            message = f"it would be called both {quoted(known)} and {quoted(name)}"
            raise UsageError(message, location=f"subgraphs[{subgraph}].tensors[{tensor}]", hint="rename it once")

    def _by_name(self, old: str, new: str, known: set[str], *, regex: bool) -> None:
        selected = INDEX.fullmatch(old)
        if old not in known and selected is not None:
            subgraph = int(selected[1] or min(self.names))
            self._add(subgraph, self._read(subgraph).find(f"index:{selected[2]}"), new)
            return
        found = [
            (subgraph, tensor, result)
            for subgraph, names in self.names.items()
            for name, result in _matching(names.found, old, new, regex=regex).items()
            for tensor in names.found[name]
        ]
        for one in found:
            self._add(*one)
        if not found:
            raise UsageError(f"no tensor is called {quoted(old)}", hint=suggestion(old, known))

    def _by_position(self, position: str, name: str, side: Direction, subgraph: int) -> None:
        place, ends, what = self._read(subgraph).place, self._edit.ends(subgraph, side), side[:-1]
        if not re.fullmatch(r"\d{1,9}", position) or int(position) >= len(ends):
            fault = f"there is no {what} at position {quoted(position)}; the subgraph has {counted(len(ends), what)}"
            raise UsageError(fault, location=place, hint="write 0=NAME")
        tensor = ends[int(position)]
        self._add(subgraph, tensor, name)
        self.ends[side, subgraph, tensor] = name

    def _check_names(self) -> None:
        """Raise EditError if a new name is also the name of another tensor."""
        for subgraph in sorted({subgraph for subgraph, _ in self.new}):
            names = self.names[subgraph]
            after = [self.new.get((subgraph, tensor), name) for tensor, name in enumerate(names.names)]
            count = Counter(after)
            for tensor, name in enumerate(names.names):
                if after[tensor] != name and count[after[tensor]] > 1:
                    other = next(at for at, one in enumerate(after) if one == after[tensor] and at != tensor)
                    raise EditError(
                        f"tensor {other} would be called {quoted(after[tensor])} too",
                        location=f"{names.place}.tensors[{tensor}]",
                        hint="choose another name, or rename that tensor as well; index:N selects it",
                    )

    def followed(self, side: Direction, subgraph: int, name: str, tensor: int) -> str:
        """Return the name of a signature's entry after its tensor was renamed."""
        new = self.new.get((subgraph, tensor))
        named = new is not None and self.names[subgraph].names[tensor] == name
        return self.ends.get((side, subgraph, tensor)) or (new if named and new is not None else name)


def _matching(names: Iterable[str], old: str, new: str, *, regex: bool) -> dict[str, str]:
    """Return the new name of each name that a pattern matches; an exact match takes precedence over a pattern."""
    if regex:
        try:
            pattern = re.compile(old, re.DOTALL)
            return {name: match.expand(new) for name in names if (match := pattern.fullmatch(name))}
        except (re.error, IndexError, RecursionError) as error:
            raise UsageError(f"{quoted(old)} = {quoted(new)} is not a valid regular expression: {error}") from error
    if old in names:
        return {old: new}
    if not re.search(r"[*?]", old):
        return {}
    if len(old) > _LONGEST_GLOB:
        raise UsageError(f"the pattern has {len(old)} characters; at most {_LONGEST_GLOB} are allowed")
    pattern, holes = _glob(old)
    if new.count("*") > len(holes):
        raise UsageError(
            f"{quoted(new)} has more * than {quoted(old)} has * and ?",
            hint="each * in the new name stands for the text that one * or ? matches",
        )
    return {
        name: _filled(new, [match[hole] for hole in holes]) for name in names if (match := pattern.fullmatch(name))
    }


def _glob(words: str) -> tuple[re.Pattern[str], list[int]]:
    """Return a regular expression for a glob, and the groups that match its `*` and `?`, in order.

    The expression never backtracks: a lookahead finds the text before the next `*`, which is then fixed.
    """
    first, *others = ("".join("(.)" if one == "?" else re.escape(one) for one in part) for part in words.split("*"))
    middle = "".join(f"(?=(?P<_{at}>(.*?){part}))(?P=_{at})" for at, part in enumerate(others[:-1]))
    last = f"(.*){others[-1]}" if others else ""
    pattern = re.compile(first + middle + last, re.DOTALL)
    return pattern, [group for group in range(1, pattern.groups + 1) if group not in pattern.groupindex.values()]


def _filled(new: str, found: Iterable[str]) -> str:
    """Replace each `*` with the next text in `found`."""
    first, *others = new.split("*")
    return first + "".join(match + other for match, other in zip(found, others, strict=False))


def _rename_entries(edit: ModelEdit, request: RenameRequest, tensors: _Tensors) -> Iterator[str]:
    for side, pairs in zip(SIDES, (request.signature_inputs, request.signature_outputs), strict=True):
        named = _asked_entries(edit, side, pairs)
        for index, one in enumerate(edit.signatures.now):
            ends = list(one.side(side))
            after = [
                named.get((index, entry)) or tensors.followed(side, one.subgraph, *end)
                for entry, end in enumerate(ends)
            ]
            count = Counter(after)
            for entry, ((old, _), name) in enumerate(zip(ends, after, strict=True)):
                place = f"signatures[{index}].{side}[{entry}]"
                if old != name and count[name] > 1:
                    message = f"two {side} of signature {quoted(one.key)} would be called {quoted(name)}"
                    raise EditError(message, location=place, hint="choose another name")
                if old != name:
                    edit.signatures.set_entry(index, side, entry, name=name)
                    yield f"{place}: {quoted(old)} -> {quoted(name)}"


def _asked_entries(edit: ModelEdit, side: Direction, pairs: Iterable[Pair]) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    entries: dict[str, list[tuple[int, int]]] = {}
    for index, one in enumerate(edit.signatures.now):
        for entry, (name, _) in enumerate(one.side(side)):
            for words in (name, f"{one.key}/{name}"):
                entries.setdefault(words, []).append((index, entry))
    for pair in pairs:
        old, new = split_pair(pair, entries)
        _check_name(new)
        if old not in entries:
            hint = suggestion(old, entries) if entries else "there are no signatures"
            raise UsageError(f"no signature has {side} called {quoted(old)}", hint=hint)
        found.update(dict.fromkeys(entries[old], new))
    return found


def rename_metadata(edit: ModelEdit, pairs: Iterable[Pair]) -> Iterator[str]:
    """Rename metadata entries; yield a line for each. Raises the same errors as `rename`."""
    for index, old, name in _renamed(edit.metadata_names, pairs, "metadata entry"):
        edit.rename_metadata(index, name)
        yield f"metadata[{index}]: {quoted(old)} -> {quoted(name)}"


def _renamed(names: list[str], pairs: Iterable[Pair], what: str) -> list[tuple[int, str, str]]:
    """Return the index, the old name and the new name of each renamed object.

    Raises UsageError if an old name does not exist, and EditError if a new one already exists.
    """
    new: dict[str, str] = {}
    for old, name in (split_pair(pair, names) for pair in pairs):
        _check_name(name)
        if old not in names:
            hint = suggestion(old, names) if names else "there are none"
            raise UsageError(f"no {what} is called {quoted(old)}", hint=hint)
        new[old] = name
    after = [new.get(name, name) for name in names]
    for old, name in new.items():
        if old != name and after.count(name) > names.count(old):
            raise EditError(f"there is already a {what} {quoted(name)}", hint="choose another name")
    return [(at, old, name) for at, (old, name) in enumerate(zip(names, after, strict=True)) if old != name]


def _check_name(name: str) -> None:
    if not name or "\0" in name:
        raise UsageError(f"{quoted(name)} is not a valid name", hint="a name has at least one character and no NUL")
