"""Make the smallest model that still fails in the same way as a given one.

First, operators are removed, then outputs; then constants are set to zero. This is repeated until nothing more can be
removed. The results of removed operators become inputs. Finally, inputs are made smaller.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, EditError, InvalidInputError, UsageError
from circletools.graph.build import model_graph
from circletools.model.model import Model, open_model
from circletools.model.sizes import MOST_DIMENSIONS
from circletools.numerics.compare import compare
from circletools.numerics.request import CompareRequest
from circletools.parts.whole import read_whole
from circletools.reduction.candidates import Candidates, Choice, anonymous
from circletools.runtimes.worker import Worker
from circletools.storage.documents import read_bytes, read_json
from circletools.storage.files import view, write
from circletools.surgery.setting import ShapeRequest, set_shape
from circletools.wording import Attributes

Symptom = frozenset[str]
"""The way in which a model fails, without details specific to the model; empty if it does not fail."""
Ask = Callable[[Path], Symptom]

_OF_SHELL = frozenset(("|", "||", "&", "&&", ";", "<", ">", ">>", ">&"))
_BEGINNING = '{"model"'  # of a line of the log
_COMPILERS = ("vela",)  # programs that do not run models
_VARIES = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"|/\S+")


@contextmanager
def _asking(request: ReduceRequest) -> Iterator[Ask]:
    """Yield a test for the failure, according to the one condition that is given.

    Raises UsageError for no condition or several, a command without `{}`, and programs that are unknown or not
    installed.
    """
    timeout_s = request.timeout_s
    if sum(map(bool, (request.while_, request.while_refused, request.while_differs))) != 1:
        raise UsageError("give exactly one condition", hint="use `while_=`, `while_refused=` or `while_differs=`")
    if request.while_:
        try:
            words = shlex.split(request.while_)
        except ValueError as error:
            raise UsageError(f"the command is malformed: {error}") from error
        if not any("{}" in word for word in words):
            raise UsageError("the command does not name the model", hint="write {} where its file name belongs")
        if _OF_SHELL.intersection(shlex.shlex(request.while_, punctuation_chars=True)):
            raise UsageError("the command runs without a shell", hint="write sh -c 'COMMAND' to use | or >")
        yield lambda model: _of_command([word.replace("{}", str(model)) for word in words], timeout_s)
    elif request.while_refused:
        with Worker(request.while_refused, timeout_s) as worker:
            yield lambda model: _of_program(worker, model)
    else:
        comparison = CompareRequest(on=tuple(request.while_differs), timeout_s=timeout_s)
        comparison.check(1)
        yield lambda model: _of_comparison(comparison, model)


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
    verdict = worker.loads(model)
    status, words = (verdict.status, verdict.words) if verdict.status != "ok" else ("run", "")
    if status == "run" and (worker.runtime in _COMPILERS or not (words := worker.run(model).failure)):
        return Symptom()
    lines = (_VARIES.sub("", part).strip() for part in re.split(r"[;\n]", words))
    return Symptom(f"{status}: {line}" for line in lines if line) or Symptom((status,))


def _of_comparison(request: CompareRequest, model: Path) -> Symptom:
    with open_model(model) as opened:
        return Symptom(("differs",)) if compare(opened, request).has_faults else Symptom()


@dataclass(frozen=True, slots=True)
class ReduceRequest(Attributes):
    """The condition that a reduced model must meet, given in one of three ways.

    `while_` is a command with `{}` for the model's name; status 0 means that the failure persists. `while_refused` is
    a program that refuses the model or crashes; `while_differs` are programs, the first of which is the reference.
    With `share_safe`, weights become random and names are removed. `log` is a file of results to resume from.
    """

    while_: str | None = None
    while_refused: str | None = None
    while_differs: tuple[str, ...] = ()
    share_safe: bool = False
    timeout_s: float = 60.0
    log: str | None = None


@dataclass(frozen=True, slots=True)
class Reduction(Attributes):
    """The reduced model: its subgraph, operators and their codes, and how many outputs and zeroed constants it has.

    `operator_count` is the number of operators in the original subgraph, `trials` the number of tests, and `symptom`
    the failure; `still_fails` is whether the model made with `share_safe` still fails, or None without `share_safe`.
    """

    subgraph: int
    operators: tuple[int, ...]
    codes: tuple[str, ...]
    operator_count: int
    outputs: int
    zeros: int
    trials: int
    symptom: tuple[str, ...]
    still_fails: bool | None


def reduce(model: Model, target: str | os.PathLike[str], request: ReduceRequest) -> Reduction:
    """Write to `target` the smallest part of a model that still fails; return a description of the part.

    Raises EditError if the model does not fail every time; UsageError for an invalid request or a program that is not
    installed; InvalidInputError for an unreadable log; and ModelFormatError for a broken model.

    >>> with ct.open("in.tflite") as model:
    ...     ct.reduce(model, "small.tflite", ct.ReduceRequest(while_refused="litert-gpu"))
    """
    model.source.check_other(target, in_place=False)
    candidates = Candidates(read_whole(model))
    with ExitStack() as stack:
        ask = stack.enter_context(_asking(request))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="circletools-")))
        trials = _Trials(ask, folder, model.format, request.log)
        trials.begin(bytes(model.source.octets))
        choice = _smallest(candidates, trials)
        excerpt = candidates.excerpt(choice)
        assert excerpt is not None
        data, still_fails = candidates.file(excerpt), None
        if not trials.fails(data, again=True):
            raise _comes_and_goes()
        if request.share_safe:
            data = candidates.file(anonymous(candidates, choice, excerpt))
            still_fails = trials.fails(data)
        write(target, [data if still_fails is False else smaller(data, trials.fails)], source=model.source)
    graph = candidates.graph(choice)
    codes = tuple(graph.operators.code_names[one] for one in choice.operators)
    counts = len(graph), len(excerpt.sections[0].outputs), len(choice.zeros), trials.count
    return Reduction(graph.index, choice.operators, codes, *counts, tuple(sorted(trials.symptom)), still_fails)


def _comes_and_goes() -> EditError:
    return EditError("not reproducible: the same model fails only sometimes", hint="remove the source of variation")


class _Trials:
    """Tests each file once; results are logged immediately, and files already in the log are not tested again."""

    def __init__(self, ask: Ask, folder: Path, kind: str, log: str | None) -> None:
        self._ask, self._folder, self._kind, self._log = ask, folder, kind, log
        self._known = {} if log is None or not os.path.exists(log) else _read_log(log)
        self.count, self.symptom = 0, Symptom()

    def begin(self, data: bytes) -> None:
        """Test the whole model twice. Raises EditError unless the model fails both times."""
        answers = [self._answer(data, "whole") for _ in range(2)]
        if not any(answers):
            raise EditError("the model does not fail", hint="nothing was written")
        if not all(answers):
            raise _comes_and_goes()
        self.symptom = answers[0] | answers[1]  # some programs print a warning only once

    def fails(self, data: bytes, *, again: bool = False) -> bool:
        """Return whether a file fails, and only for reasons for which the whole model fails."""
        key = blake2b(data, digest_size=16).hexdigest()
        if again or key not in self._known:
            found = self._answer(data, key)
            self._known[key] = bool(found) and found <= self.symptom
            if self._log is not None:
                with open(self._log, "a", encoding="utf-8") as file:
                    # An interrupted run may have left part of a line.
                    file.write("\n" * (file.tell() > 0) + json.dumps({"model": key, "fails": self._known[key]}))
        return self._known[key]

    def _answer(self, data: bytes, name: str) -> Symptom:
        self.count += 1
        path = self._folder / f"{name}.{self._kind}"
        path.write_bytes(data)
        found = self._ask(path)
        path.unlink()
        return found


def _read_log(name: str) -> dict[str, bool]:
    try:
        lines = read_bytes(name).decode().splitlines()
        if not all(line.startswith(_BEGINNING[: len(line)]) for line in lines):
            raise ValueError("a line is not a result")
        rows = [read_json(line, name) for line in lines if line.endswith("}")]  # others are truncated
        return {str(row["model"]): bool(row["fails"]) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"not a log of `reduce`: {error}", location=name) from error


def _smallest(candidates: Candidates, trials: _Trials) -> Choice:
    """Return a failing choice from which nothing more can be removed."""

    def fails(choice: Choice) -> bool:
        try:
            excerpt = candidates.excerpt(choice)
            return excerpt is not None and trials.fails(candidates.file(excerpt))
        except CircleToolsError:  # there is no such part, or the model is broken
            return False

    model = candidates.whole.graph
    choices = (Choice(index, tuple(range(len(model.graphs[index])))) for index in model.entries)
    choice = next((one for one in choices if fails(one)), None)
    if choice is None:
        raise EditError("after rewriting, no subgraph fails", hint="the failure may depend on the file's layout")
    while True:
        before = choice
        choice = _fewer(candidates, choice, fails)
        called = sorted(candidates.graph(choice).called(choice.operators))
        inner = (Choice(index, tuple(range(len(model.graphs[index])))) for index in called)
        choice = next((one for one in inner if fails(one)), choice)
        if choice == before:
            return choice


def _fewer(candidates: Candidates, choice: Choice, fails: Callable[[Choice], bool]) -> Choice:
    """Return a choice with fewer operators, outputs and constants; each kind is reduced once, as far as possible."""
    order = [one for one in reversed(candidates.graph(choice).dag.order) if one in set(choice.operators)]

    def operators(some: Sequence[int]) -> Choice:
        return Choice(choice.subgraph, tuple(sorted(some)), None, choice.zeros)

    kept = minimal(order, lambda some: fails(operators(some)))
    if len(kept) < len(choice.operators) or choice.outputs is None:
        choice = operators(kept)
    free = candidates.constants(choice)
    choice = replace(choice, zeros=tuple(one for one in choice.zeros if one in free))
    outputs = candidates.outputs(choice) if choice.outputs is None else list(choice.outputs)
    kept = minimal(outputs, lambda some: fails(replace(choice, outputs=tuple(some))))
    choice = replace(choice, outputs=tuple(kept))

    def zeros(some: Sequence[int]) -> Choice:
        return replace(choice, zeros=tuple(one for one in free if one not in some))

    filled = [one for one in free if one not in choice.zeros]
    return zeros(minimal(filled, lambda some: fails(zeros(some)), least=0)) if filled else choice


def minimal(items: Sequence[int], fails: Callable[[list[int]], bool], *, least: int = 1) -> list[int]:
    """Return at least `least` items that fail together, none of which can be left out; the whole list must fail.

    Delta debugging (ddmin by Zeller and Hildebrandt, with complements only): leave out halves, then quarters, and so
    on down to single items. One faulty item among n is found in 2 log2(n) trials.
    """
    items, size = list(items), max(1, len(items) // 2)
    while True:
        place, is_changed = 0, False
        while place < len(items):
            rest = [*items[:place], *items[place + size :]]
            if least <= len(rest) < len(items) and fails(rest):
                items, is_changed = rest, True
            else:
                place += size
        if size == 1 and not is_changed:
            return items
        size = max(1, size // 2)


def smaller(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Return a failing file with input sizes of 1, or as small as halving allows; other shapes are inferred."""
    while True:
        with open_model(data) as model:
            found = next((made for made in _with_one_smaller(model) if fails(made)), None)
        if found is None:
            return data
        data = found


def _with_one_smaller(model: Model) -> Iterator[bytes]:
    """Yield files in which one input size is smaller, if the operators accept that size."""
    graph = model_graph(model).graphs[0]
    for place, tensor in enumerate(graph.inputs.tolist()):
        shape = graph.values.shapes.row(tensor).tolist()
        for axis, size in enumerate(shape if len(shape) <= MOST_DIMENSIONS else ()):
            for less in dict.fromkeys((1, size // 2)) if size > 1 else ():
                wanted = (*shape[:axis], less, *shape[axis + 1 :])
                try:
                    with ModelEdit(model) as edit:
                        set_shape(edit, ShapeRequest(((str(place), wanted),)))
                        parts = edit.parts()
                    with open_model(b"".join(map(view, parts))) as changed:
                        made = b"".join(map(view, compact_parts(changed)))
                except CircleToolsError:  # an operator refuses the size, or its shape rule is unknown
                    continue
                yield made
