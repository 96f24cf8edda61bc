"""Runs models and parts of them with the same inputs in all compared programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from circletools.errors import CircleToolsError
from circletools.numerics.subject import Region, Subject
from circletools.runtimes.comparison import same
from circletools.runtimes.protocol import Array
from circletools.runtimes.worker import Worker
from circletools.storage.files import Part, view

Runs = list[list[Array]]
"""Arrays by run and position."""
Known = dict[int, list[Array]]
"""The values of tensors, run by run."""

_MOST_CRASHES = 20


class NotRunError(Exception):
    """A program does not run a model, or a part of it; with the reason."""


@dataclass
class Runner:
    """A program that runs files on request; use as a context manager.

    `failure` is why the whole model does not run there, `runs` how often each part runs. After twenty crashes, no
    further requests are made.
    """

    name: str
    timeout_s: float
    failure: str = ""
    exposing_changes: str = ""
    runs: int = 1
    crashes: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Runner:
        """Start the program. Raises UsageError if it is not installed."""
        self.worker = self._stack.enter_context(Worker(self.name, self.timeout_s))
        self._folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="circletools-")))
        return self

    def __exit__(self, *_error: object) -> None:
        """End the program."""
        self._stack.close()

    def run(self, subject: Subject, inputs: Runs, parts: Sequence[Part] = ()) -> Runs:
        """Return the outputs of each run of a model, or of a file made from these parts. Raises NotRunError."""
        if self.crashes >= _MOST_CRASHES:
            raise NotRunError(f"{self.name} was abandoned after {_MOST_CRASHES} crashes")
        path = self._folder / f"{uuid4().hex}.{subject.model.format}"  # programs map files, so never overwrite one
        with path.open("wb") as file:
            file.writelines(map(view, parts) if parts else [subject.model.source.memory])
        answer = self.worker.run_each(path, inputs)
        path.unlink()
        if answer.failure:
            self.crashes += " ended with " in answer.failure or answer.failure.startswith("no answer")
            raise NotRunError(answer.failure)
        count = len(answer.outputs) // len(inputs)
        return [answer.outputs[at * count : (at + 1) * count] for at in range(len(inputs))]

    def part(self, subject: Subject, region: Region, values: Known, data: Mapping[int, bytes] | None = None) -> Known:
        """Run a region cut out of a model with these values; return its outputs. Raises NotRunError.

        `data` are replacement contents for buffers of the model.
        """
        inputs = [[values[tensor][run] for tensor in region.inputs] for run in range(self.runs)]
        with _refusing():
            parts = subject.cut_out(region, data)
        found = self.run(subject, inputs, parts)
        return _by_tensor(region.outputs, found, range(len(region.outputs)))

    def exposed(self, subject: Subject, tensors: Sequence[int], inputs: Runs, plain: Runs) -> Known:
        """Run the whole model; return the values of tensors. Raises NotRunError.

        Records whether outputs differ from `plain`, the outputs without exposed tensors.
        """
        with _refusing():
            parts, places = subject.exposed(tensors)
        found = self.run(subject, inputs, parts)
        if not self.exposing_changes:
            changes = (same(one, two[: len(one)]) for one, two in zip(plain, found, strict=True))
            self.exposing_changes = next(filter(None, changes), "")
        return _by_tensor(tensors, found, places)


@contextmanager
def _refusing() -> Iterator[None]:
    """Treat a part that cannot be made as one that does not run."""
    try:
        yield
    except CircleToolsError as error:
        raise NotRunError(str(error)) from error


def _by_tensor(tensors: Sequence[int], found: Runs, places: Sequence[int]) -> Known:
    if any(len(outputs) <= max(places, default=-1) for outputs in found):
        raise NotRunError(f"{len(found[0])} outputs were returned, not {len(places)}")
    return {tensor: [outputs[place] for outputs in found] for tensor, place in zip(tensors, places, strict=True)}
