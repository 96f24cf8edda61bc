"""Compare two models: structure, metadata, origins, affinity, and data after the flatbuffer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from circletools.diff.beside import affinity_differences, file_differences, metadata_differences, origin_differences
from circletools.diff.comparison import ModelComparison
from circletools.errors import CircleToolsError, UsageError
from circletools.findings import Finding
from circletools.flatbuf.comparison import Difference, first_differing_byte, same_bytes
from circletools.model.model import Model
from circletools.wording import Items, Tabular, counted, suggestion

__all__ = ["Change", "ModelDifference", "compare_models"]

Section = Literal["structure", "metadata", "origins", "affinity", "file"]
SECTIONS: tuple[Section, ...] = get_args(Section)

_MIRRORED = {"added": "removed", "removed": "added"}


class Change(NamedTuple):
    """A difference and the section that it belongs to."""

    section: Section
    difference: Difference


class Pairing(NamedTuple):
    """The matched operators and tensors, as arrays of pairs of rows (before, after), counted across subgraphs."""

    operators: NDArray[np.int64]
    tensors: NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False)
class ModelDifference(Tabular):
    """The differences between two models. If `identical`, the files are equal byte for byte.

    `notes` lists what was not compared, `ignored` counts the changes left out. `pairing` is None for identical files.
    """

    changes: tuple[Change, ...]
    identical: bool
    notes: tuple[Finding, ...]
    pairing: Pairing | None = None
    ignored: int = 0

    def __bool__(self) -> bool:
        """Return whether the models differ in the compared sections."""
        return bool(self.changes)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the section, kind, paths and values of each change."""
        return [{"section": section, **one._asdict()} for section, one in self.changes]


def compare_models(
    before: Model, after: Model, sections: Iterable[str] | None = None, *, ignore: Sequence[str] = ()
) -> ModelDifference:
    """Return the differences between two models.

    `sections` can contain structure, metadata, origins, affinity and file; the default is all of them. Changes at or
    below a path that matches a glob in `ignore` are left out: `*` matches any characters, `?` matches one, and
    brackets are literal.

    Raises UsageError if a section does not exist, and ModelFormatError, whose location begins with the file name, if
    one of the models is broken.

    >>> with ct.open("a.tflite") as before, ct.open("b.tflite") as after:
    ...     found = ct.diff(before, after, ["structure"], ignore=["buffers[*]"])
    """
    # Swapping the models must give mirrored differences, so the matching is always computed in the same direction.
    chosen = _chosen(sections)
    files = before.wire.memory, after.wire.memory
    for model in (before, after):
        try:
            _ = model.reachable
        except CircleToolsError as error:
            error.name_file(model.source.name)
            raise
    if same_bytes(*files):
        return ModelDifference((), True, ())
    at = first_differing_byte(*files)
    first, second = (bytes(data[at : at + 1]) for data in files)
    mirrored = second < first
    try:
        changes, notes, pairing = _compared(*((after, before) if mirrored else (before, after)), chosen)
    except CircleToolsError as error:
        error.name_file(f"{before.source.name}, {after.source.name}")
        raise
    if mirrored:
        changes = [Change(section, _mirror(one)) for section, one in changes]
        pairing = Pairing(*(rows[:, ::-1] for rows in pairing))
    kept = _without(changes, ignore)
    return ModelDifference(kept, False, tuple(notes), pairing, len(changes) - len(kept))


def _chosen(sections: Iterable[str] | None) -> list[Section]:
    wanted = list(SECTIONS if sections is None else sections)
    for name in wanted:
        if name not in SECTIONS:
            raise UsageError(f"there is no section {name[:40]!r}", hint=suggestion(name, SECTIONS))
    return [section for section in SECTIONS if section in wanted]


def _compared(
    before: Model, after: Model, sections: Iterable[Section]
) -> tuple[list[Change], list[Finding], Pairing]:
    comparison = ModelComparison(before, after)
    notes: list[Finding] = []
    changes = [Change(section, one) for section in sections for one in _DIFFERENCES[section](comparison, notes)]
    if comparison.unknown:
        places, more = comparison.unknown, len(comparison.unknown) - 1
        others = f" and {counted(more, 'other')}" if more else ""
        message = f"the schema does not know {places[0]}{others}; unknown fields are not compared"
        notes.append(Finding("UNKNOWN_FIELD", "info", "", message))
    return changes, notes, Pairing(*(np.stack(one.pairs, 1) for one in (comparison.operators, comparison.tensors)))


def _without(changes: Iterable[Change], globs: Sequence[str]) -> tuple[Change, ...]:
    """Return the changes, except those at or below a path that matches a glob."""
    words = "|".join(re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".") for glob in globs)
    below = re.compile(rf"(?:{words})(?:[.\[].*)?" if globs else "(?!)", re.DOTALL)
    return Items(
        change
        for change in changes
        if not (below.fullmatch(change.difference.path) or below.fullmatch(change.difference.path_after))
    )


_DIFFERENCES: dict[Section, Callable[[ModelComparison, list[Finding]], Iterator[Difference]]] = {
    "structure": lambda comparison, _: comparison.differences(),
    "metadata": metadata_differences,
    "origins": origin_differences,
    "affinity": affinity_differences,
    "file": file_differences,
}


def _mirror(one: Difference) -> Difference:
    kind, path, path_after, before, after = one
    return Difference(_MIRRORED.get(kind, kind), path_after, path, after, before)  # type: ignore[arg-type]
