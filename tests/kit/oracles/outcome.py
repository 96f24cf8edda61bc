"""What one run of one model did, and how two such runs differ."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Stage = Literal["ok", "load", "prepare", "run", "crash", "timeout"]

# (name, dtype, shape, bytes). Bytes rather than numbers: equality is then bit equality, also of NaN and -0.
Value = tuple[str, str, tuple[int, ...], bytes]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one run.

    `stage` is where it ended; `reached` is the step under way when a runtime crashed or hung. `signatures`
    maps a signature key to its outputs, sorted by name; one that failed is missing, and is in `message`.
    """

    runtime: str
    stage: Stage
    message: str = ""
    outputs: tuple[Value, ...] = ()
    signatures: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    reached: str = ""


_VOLATILE = (
    (re.compile(r"(?<![\w./:])/(?:[^\s/:'\"]+/)+[^\s/:'\"]*"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?"), "<time>"),
)


def stable(message: str) -> str:
    """Return `message` without what differs between two runs of one file."""
    for pattern, placeholder in _VOLATILE:
        message = pattern.sub(placeholder, message)
    return message.strip()


def same_behavior(before: Outcome, after: Outcome, *, names: bool = True) -> str | None:
    """Return None if the two are the same to a user, else the first difference.

    With `names=False` the outputs may have other tensor names, for edits that rename. Names of signatures and
    of their outputs always count: they are how a caller finds them.
    """
    pairs = (
        ("runtime", before.runtime, after.runtime),
        ("stage", _stage(before), _stage(after)),
        ("message", stable(before.message), stable(after.message)),
    )
    for what, old, new in pairs:
        if old != new:
            return f"{what}: {old!r} before, {new!r} after"
    found = _differing("outputs", before.outputs, after.outputs, names=names)
    if found is not None:
        return found
    if sorted(before.signatures) != sorted(after.signatures):
        return f"signatures: {sorted(before.signatures)} before, {sorted(after.signatures)} after"
    for key, old_values in before.signatures.items():
        found = _differing(f"signatures[{key!r}]", old_values, after.signatures[key], names=True)
        if found is not None:
            return found
    return None


def _stage(outcome: Outcome) -> str:
    return f"{outcome.stage} in {outcome.reached}" if outcome.reached else outcome.stage


def _differing(where: str, old: tuple[Value, ...], new: tuple[Value, ...], *, names: bool) -> str | None:
    if len(old) != len(new):
        return f"{where}: {len(old)} before, {len(new)} after"
    for number, (one, two) in enumerate(zip(old, new, strict=True)):
        at = f"{where}[{number}] {one[0]!r}"
        if names and one[0] != two[0]:
            return f"{where}[{number}]: name {one[0]!r} before, {two[0]!r} after"
        if one[1] != two[1]:
            return f"{at}: dtype {one[1]} before, {two[1]} after"
        if one[2] != two[2]:
            return f"{at}: shape {list(one[2])} before, {list(two[2])} after"
        if one[3] != two[3]:
            return f"{at}: {_bytes_differing(one[3], two[3])}"
    return None


def _bytes_differing(old: bytes, new: bytes) -> str:
    if len(old) != len(new):
        return f"{len(old)} bytes before, {len(new)} after"
    places = np.flatnonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))
    first = int(places[0]) // 8 * 8
    was, now = old[first : first + 8].hex(), new[first : first + 8].hex()
    return f"{len(places)} of {len(old)} bytes differ, at byte {first}: {was} before, {now} after"
