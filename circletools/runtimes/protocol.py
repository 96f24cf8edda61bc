"""Requests to a child process that has a program, and the child's answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from circletools.storage.platform import read_at

Array = NDArray[Any]
Make = Callable[[int, np.dtype[Any], Sequence[int]], Array]
"""A function that makes the values of an input, given its position, type and shape."""
Question = Literal["loads", "called", "placement", "run", "profile"]
Status = Literal["ok", "refused", "crash", "timeout", "memory", "differs"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request about a model, which runs once with each of `inputs`, or `repeat` times with inputs from `seed`.

    `variant` chooses a part of the program: its kernels, a backend or an accelerator. The model is loaded once for
    all runs, so state kept between runs has an effect. The inputs of `following` more runs are sent one by one, each
    in return for the outputs so far, so that the child holds only one run.
    """

    question: Question
    model: str
    variant: str = ""
    inputs: list[list[Array]] | None = None
    seed: int = 0
    repeat: int = 1
    following: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A model in a chain: the program and variant that run it, and the names of its inputs and outputs."""

    program: str
    variant: str
    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Chain = tuple[Step, ...]
"""Models that run one after another; later models read the outputs of earlier ones by name."""


@dataclass(frozen=True, slots=True)
class ChainsRequest:
    """Chains to time in turns, for `seconds` in total; all run in one process.

    Inputs that no step produces are generated from `seed` if they are not `given`, by name.
    """

    chains: tuple[Chain, ...]
    seconds: float
    seed: int = 0
    given: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missing:
    """The program cannot be imported, or has no device to run on; `text` is the reason."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The inputs of the first run and the outputs of all runs, concatenated; or the reason why there are none."""

    inputs: list[Array]
    outputs: list[Array]
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The output of a program's own profiler, in its format, and the time to load and prepare the model.

    If `file` is given, it contains the output once the process has ended.
    """

    data: bytes
    initialization_us: float = 0.0
    failure: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of chains in microseconds: an array for each chain, by turn and step, with copies.

    `failed` holds the chain and step that did not run, or None if this is unknown because the process ended.
    """

    times_us: list[NDArray[np.float64]]
    failure: str = ""
    failed: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """The device of an operator; the program may identify the operator only partly.

    `device` is empty if the program refuses the operator; `words` are its reasons. `code` and `tensor` (an output)
    are the program's own names. `subgraph` counts the subgraphs in the order in which the program reports them.
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

    `others` is the device of unnamed operators, or empty if unknown. `arena_bytes` is the memory that the program
    needs for tensors, if it reports that.
    """

    status: Status
    words: str = ""
    operators: tuple[Placed, ...] = ()
    others: str = ""
    arena_bytes: int | None = None


class RefusedError(Exception):
    """The program does not accept the model; `operators` are those named in its message."""

    def __init__(self, words: str, operators: Sequence[Placed] = ()) -> None:
        super().__init__(words)
        self.operators = tuple(operators)


class NoDeviceError(Exception):
    """The program has no device to run on, regardless of the model."""


_PRINTED = 2  # the child's standard error is a file that the parent also reads
_MOST_PRINTED = 1 << 20


def mark() -> int:
    """Return the position at which this process's output now ends."""
    with suppress(OSError):
        return os.lseek(_PRINTED, 0, os.SEEK_END)
    return 0


def printed(since: int = 0) -> str:
    """Return the output of this process since a position that `mark` returned."""
    with suppress(OSError):
        return read_at(_PRINTED, _MOST_PRINTED, since).decode(errors="replace")
    return ""


def words_of(error: Exception) -> str:
    """Return the message of an error, preceded by its class unless it is a refusal."""
    kind = "" if isinstance(error, RefusedError) else f"{type(error).__name__}: "
    return f"{kind}{error}".strip()


def plain(array: Array) -> Array:
    """Return an array that any process can read: some dtypes are known only where their package is imported."""
    return array if array.dtype.kind in "biufcOSU" else array.view(np.dtype(f"u{array.dtype.itemsize}"))


def same(first: Sequence[Array], second: Sequence[Array]) -> str | None:
    """Return None if two lists of arrays are equal in every bit, or else a description of the first difference."""
    if len(first) != len(second):
        return f"the numbers of outputs differ: {len(first)} and {len(second)}"
    for index, (one, two) in enumerate(zip(first, second, strict=True)):
        if one.dtype != two.dtype or one.shape != two.shape:
            return f"output {index} is {one.dtype}{list(one.shape)} and {two.dtype}{list(two.shape)}"
        if one.dtype.kind == "O":
            if one.tolist() != two.tolist():
                return f"output {index}: the strings differ"
        elif one.tobytes() != two.tobytes():
            ours, theirs = (np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, -1) for array in (one, two))
            count = int((ours != theirs).any(axis=1).sum())
            return f"output {index}: {count} of {one.size} values differ"
    return None
