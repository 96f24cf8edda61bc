"""What a worker and its parent say to each other.

A module of its own: a class of the program's main module could not be unpickled on the other side.
"""

from __future__ import annotations

from dataclasses import dataclass

READY = "ready"


@dataclass(frozen=True, slots=True)
class Request:
    """One model to run; `seconds` is when the parent stops waiting, `environment` is for this run alone."""

    model: str
    seed: int
    seconds: float
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Broken:
    """The harness failed, not the runtime: `text` is a traceback."""

    text: str
