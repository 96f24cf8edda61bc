"""Tests of failure: a command, a program that refuses the model, or two programs that disagree."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from circletools.errors import UsageError
from circletools.model.model import open_model
from circletools.numerics.compare import compare
from circletools.numerics.request import CompareRequest
from circletools.runtimes.worker import Worker

Symptom = frozenset[str]
"""How a model fails, without details specific to the model; empty if it does not fail."""
Ask = Callable[[Path], Symptom]

_COMPILERS = ("vela",)  # do not run models
_VARIES = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"|/\S+")


@contextmanager
def asking(command: str | None, refused: str | None, differs: Sequence[str], timeout_s: float) -> Iterator[Ask]:
    """Yield a test for the failure, according to the one condition that is given.

    `command` contains `{}` for the model's name; as in a shell's `while`, status 0 means that the failure persists.
    `refused` is a program that refuses the model or crashes; the first program of `differs` is the reference. Raises
    UsageError for no condition or several, a command without `{}`, and programs that are unknown or not installed.
    """
    if sum(map(bool, (command, refused, differs))) != 1:
        raise UsageError("give exactly one condition", hint="use `while_=`, `while_refused=` or `while_differs=`")
    if command:
        words = shlex.split(command)
        if not any("{}" in word for word in words):
            raise UsageError("the command does not name the model", hint="write {} where its file name belongs")
        yield lambda model: _of_command([word.replace("{}", str(model)) for word in words], timeout_s)
    elif refused:
        with Worker(refused, timeout_s) as worker:
            yield lambda model: _of_program(worker, model)
    else:
        request = CompareRequest(on=tuple(differs), timeout_s=timeout_s)
        request.check(1)
        yield lambda model: _of_comparison(request, model)


def _of_command(words: list[str], timeout_s: float) -> Symptom:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Symptom()
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be started: {error.strerror}") from error
    return Symptom(("status 0",)) if done.returncode == 0 else Symptom()


def _of_program(worker: Worker, model: Path) -> Symptom:
    """Return the failure that a program reports."""
    verdict = worker.loads(model)
    status, words = (verdict.status, verdict.words) if verdict.status != "ok" else ("run", "")
    if status == "run" and (worker.runtime in _COMPILERS or not (words := worker.run(model).failure)):
        return Symptom()
    lines = (_VARIES.sub("", part).strip() for part in re.split(r"[;\n]", words))
    return Symptom(f"{status}: {line}" for line in lines if line) or Symptom((status,))


def _of_comparison(request: CompareRequest, model: Path) -> Symptom:
    with open_model(model) as opened:
        return Symptom(("differs",)) if compare(opened, request).has_faults else Symptom()
