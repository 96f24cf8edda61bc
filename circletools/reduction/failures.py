"""Whether a model still fails: by a command, a program that refuses it, or two programs that disagree."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from circletools.errors import UsageError
from circletools.model.model import open_model
from circletools.numerics.compare import compare
from circletools.numerics.request import CompareRequest
from circletools.runtimes.programs import named
from circletools.runtimes.worker import Worker

Symptom = frozenset[str]
"""What a program says of a model; empty where it does not fail."""
Ask = Callable[[Path], Symptom]

_VARIES = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"|/\S+")


def by_command(words: str, timeout_s: float) -> Ask:
    """Ask a command, whose `{}` is the model; as in a shell's `while`, status 0 is to go on: it still fails."""
    parts = shlex.split(words)
    if not any("{}" in part for part in parts):
        raise UsageError("the command does not name the model", hint="write {} where its file is to stand")

    def ask(model: Path) -> Symptom:
        command = [part.replace("{}", str(model)) for part in parts]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return Symptom()
        except OSError as error:
            raise UsageError(f"{parts[0]} cannot be started: {error.strerror}") from error
        return Symptom(("status 0",)) if done.returncode == 0 else Symptom()

    return ask


@contextmanager
def by_refusal(name: str, timeout_s: float) -> Iterator[Ask]:
    """Ask whether a program refuses to load a model or to run it, or crashes, and for which reasons."""
    with Worker(name, timeout_s) as worker:

        def ask(model: Path) -> Symptom:
            verdict = worker.loads(model)
            if verdict.status != "ok":
                return _reasons(verdict.words, verdict.status)
            failure = worker.run(model).failure
            return _reasons(failure, "run") if failure else Symptom()

        yield ask


def by_difference(names: Sequence[str], timeout_s: float) -> Ask:
    """Ask whether an operator is at fault in any of the programs, the first of which is right."""
    request = CompareRequest(on=tuple(names), timeout_s=timeout_s)
    request.check(1)

    def ask(model: Path) -> Symptom:
        with open_model(model) as opened:
            return Symptom(("differs",)) if compare(opened, request).has_faults else Symptom()

    return ask


def _reasons(words: str, status: str) -> Symptom:
    """Return the reasons of a program, without what differs from model to model."""
    lines = (_VARIES.sub("", part).strip() for part in re.split(r"[;\n]", words))
    return Symptom(f"{status}: {line}" for line in lines if line) or Symptom((status,))


@contextmanager
def asking(command: str | None, refused: str | None, differs: Sequence[str], timeout_s: float) -> Iterator[Ask]:
    """Give what asks in the one way that is named. Raises UsageError for none, or several."""
    if sum(map(bool, (command, refused, differs))) != 1:
        raise UsageError("name one failure", hint="use `while_=`, `while_refused=` or `while_differs=`")
    with ExitStack() as stack:
        if command:
            yield by_command(command, timeout_s)
        elif refused:
            named(refused)
            yield stack.enter_context(by_refusal(refused, timeout_s))
        else:
            yield by_difference(differs, timeout_s)
