"""Requests to a process with a program in it, and its answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from circletools.storage.platform import read_at

Array = NDArray[Any]
Make = Callable[[int, np.dtype[Any], Sequence[int]], Array]
"""Makes the values of an input: its position, type and shape."""
Question = Literal["loads", "called", "placement", "run", "profile"]
Status = Literal["ok", "refused", "crash", "timeout", "memory", "differs"]


@dataclass(frozen=True, slots=True)
class Request:
    """A model to ask about. It is run once with each of `inputs`, or `repeat` times with what `seed` makes.

    `variant` chooses a part of the program: kernels, a backend, an accelerator. The model is loaded
    once for all runs, so that what it keeps between runs shows.
    """

    question: Question
    model: str
    variant: str = ""
    inputs: list[list[Array]] | None = None
    seed: int = 0
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """A model in a chain: the program and the variant that run it, and what its inputs and outputs are called."""

    program: str
    variant: str
    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Chain = tuple[Step, ...]
"""Models that run one after the other; what one makes, later ones read by its name."""


@dataclass(frozen=True, slots=True)
class ChainsRequest:
    """Chains whose time is to be taken, turn by turn, for so many seconds; all run in one process.

    What no step makes is made up from `seed`.
    """

    chains: tuple[Chain, ...]
    seconds: float
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """The program is imported; `version` is that of its package."""

    version: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The program cannot be imported, or has no device to run on, and why."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The inputs of the first run and the outputs of all, one run after another; or why there are none."""

    inputs: list[Array]
    outputs: list[Array]
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The output of a program's own profiler, in its format, and the time to load and prepare the model.

    `file` is where that will be when the process has ended.
    """

    data: bytes
    initialization_us: float = 0.0
    failure: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of chains in microseconds: an array a chain, by round, by step, and by what is done.

    That is bringing inputs, running, and taking outputs. `failed` is the chain and the step that did not run, None
    where the process ended.
    """

    times_us: list[NDArray[np.float64]]
    failure: str = ""
    failed: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a program puts an operator, as far as it identifies the operator.

    `device` is empty where it refuses the operator; `words` are its reasons. `code` and `tensor` (an output) are the
    names that it uses. `subgraph` counts the subgraphs that the program showed, in their order.
    """

    device: str = ""
    words: str = ""
    subgraph: int | None = None
    operator: int | None = None
    code: str = ""
    tensor: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a program loads and prepares a model, or why not, and its answers about operators.

    `others` is the device of operators that are not named, empty if that is unknown. `arena_bytes` is the memory
    for tensors that the program asks for, where it reports that.
    """

    status: Status
    words: str = ""
    operators: tuple[Placed, ...] = ()
    others: str = ""
    arena_bytes: int | None = None


class RefusedError(Exception):
    """The program does not take the model; `operators` are those that it names."""

    def __init__(self, words: str, operators: Sequence[Placed] = ()) -> None:
        super().__init__(words)
        self.operators = tuple(operators)


class NoDeviceError(Exception):
    """The program has no device to run on, whatever the model."""


_PRINTED = 2  # standard error of the child is a file that its parent reads too
_MOST_PRINTED = 1 << 20


def mark() -> int:
    """Return where the next text begins that this process prints."""
    with suppress(OSError):
        return os.lseek(_PRINTED, 0, os.SEEK_END)
    return 0


def printed(since: int = 0) -> str:
    """Return the output of this process since a mark."""
    with suppress(OSError):
        return read_at(_PRINTED, _MOST_PRINTED, since).decode(errors="replace")
    return ""


def plain(array: Array) -> Array:
    """Return an array that any process can read: some dtypes are known only where their package is imported."""
    return array if array.dtype.kind in "biufcOSU" else array.view(np.dtype(f"u{array.dtype.itemsize}"))
