"""What a process that runs models is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

Array = NDArray[Any]
Runtime = Literal["litert", "onert"]


@dataclass(frozen=True, slots=True)
class Request:
    """A model to run; `seed` makes inputs where none are given."""

    model: str
    inputs: list[Array] | None
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Inputs and outputs by position, or why there are none."""

    inputs: list[Array]
    outputs: list[Array]
    failure: str = ""
