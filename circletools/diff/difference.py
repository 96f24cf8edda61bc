"""Two models compared in all that they say: structure, metadata, origins, affinity, what is behind the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from circletools.diff.affinity import affinity_differences
from circletools.diff.comparison import ModelComparison
from circletools.diff.files import file_differences
from circletools.diff.metadata import metadata_differences
from circletools.diff.origins import origin_differences
from circletools.flatbuf.comparison import Difference
from circletools.flatbuf.leaves import first_differing_byte, same_bytes
from circletools.model import Model

__all__ = ["Change", "ModelDifference", "compare_models"]

Section = Literal["structure", "metadata", "origins", "affinity", "file"]
SECTIONS: tuple[Section, ...] = get_args(Section)

_MIRRORED = {"added": "removed", "removed": "added"}


class Change(NamedTuple):
    """A difference, and what it is about."""

    section: Section
    difference: Difference


@dataclass(frozen=True, slots=True)
class ModelDifference:
    """What differs. `identical` says that the files are equal byte for byte; `notes` are for people."""

    changes: tuple[Change, ...]
    identical: bool
    notes: tuple[str, ...]


def compare_models(before: Model, after: Model, sections: Sequence[Section] = SECTIONS) -> ModelDifference:
    """Compare two models. Raises ModelFormatError where one of them is broken.

    Comparing them the other way round gives the mirror image. For that, what belongs together is always worked out
    in the same direction, whichever model comes first here.
    """
    files = before.wire.memory, after.wire.memory
    if same_bytes(*files):
        _ = before.reachable
        return ModelDifference((), True, ())
    at = first_differing_byte(*files)
    mirrored = bytes(files[1][at : at + 1]) < bytes(files[0][at : at + 1])
    comparison = ModelComparison(after, before) if mirrored else ModelComparison(before, after)
    notes: list[str] = []
    changes = [Change(section, one) for section in sections for one in _DIFFERENCES[section](comparison, notes)]
    if comparison.unknown:
        places, more = comparison.unknown, len(comparison.unknown) - 1
        others = f" and {more} other places" if more else ""
        notes.append(f"not compared, since the schema does not know what is there: {places[0]}{others}")
    if mirrored:
        changes = [Change(section, _mirror(one)) for section, one in changes]
    return ModelDifference(tuple(changes), False, tuple(notes))


def _structure(comparison: ModelComparison, _: list[str]) -> Iterator[Difference]:
    return comparison.differences()


_DIFFERENCES: dict[Section, Callable[[ModelComparison, list[str]], Iterator[Difference]]] = {
    "structure": _structure,
    "metadata": metadata_differences,
    "origins": origin_differences,
    "affinity": affinity_differences,
    "file": file_differences,
}


def _mirror(one: Difference) -> Difference:
    kind, path, path_after, before, after = one
    return Difference(_MIRRORED.get(kind, kind), path_after, path, after, before)  # type: ignore[arg-type]
