"""Prove that two models are identical except for named parts; docs/digest.md describes how to check this yourself."""

from __future__ import annotations

from dataclasses import dataclass

from circletools.errors import UsageError
from circletools.model.digests import content_digests
from circletools.model.model import Model
from circletools.wording import Attributes


@dataclass(frozen=True, slots=True)
class PartChange(Attributes):
    """The path of a part that changed, and its digests; a digest is None if the model lacks the part."""

    part: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Attestation(Attributes):
    """A statement that two models are equal except for `changes`, with digests and the number of equal parts."""

    format: str
    before: str
    after: str
    equal_parts: int
    changes: tuple[PartChange, ...]


def attest(before: Model, after: Model) -> Attestation:
    """Return a statement that two models are identical except for the parts it names.

    Raises UsageError if the formats differ, and the same errors as `digests`.

    >>> with ct.open("in.circle") as old, ct.open("out.circle") as new:
    ...     [change.part for change in ct.attest(old, new).changes]
    ['metadata[ONE_op_table]', 'metadata[ONE_source_table]']
    """
    if before.format != after.format:
        raise UsageError(f"one model is {before.format}, the other {after.format}", hint="`diff` compares them")
    old, new = content_digests(before), content_digests(after)
    pairs = [(part, old.parts.get(part), new.parts.get(part)) for part in sorted({*old.parts, *new.parts})]
    changes = tuple(PartChange(*pair) for pair in pairs if pair[1] != pair[2])
    return Attestation(old.format, old.digest, new.digest, len(pairs) - len(changes), changes)
