"""One command on one file, as a value that any process can run: Task -> apply -> Outcome."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from typer import Exit

import circletools as ct

from ..console import bounds
from ..console.captured import Captured, capturing
from ..console.terminal import fail, show
from ..signature import Command

Heading = Literal["name", "own", "line"]
"""What is written above a file's text: its name, an empty line (the text has its own heading), or nothing."""

UNKNOWN = 5
"""The exit status of `fit` if it is unknown whether a model runs."""

_MERGED = ("json", "sarif", "junit", "gitlab")
"""Formats in which a batch writes one document, or a line for each file."""

Message = tuple[str | None, str]
"""The kind of a message (error, warning, note or None) and its text."""


@dataclass(frozen=True, slots=True)
class Task:
    """The call `function(file, **options)`, where `function` is a command that other processes find by name.

    `output` is the file to write, if any.
    """

    function: Command
    file: str
    options: dict[str, Any]
    output: str | None = None
    heading: Heading = "name"

    @property
    def form(self) -> str:
        """Return the output format in the options: text, json, csv, sarif, github, gitlab or junit."""
        return str(self.options.get("form", "text"))

    @property
    def words(self) -> list[str]:
        """Return the file and all strings in the options, some of which name files."""
        values = (value if isinstance(value, list | tuple) else [value] for value in self.options.values())
        return [self.file, *(str(word) for one in values for word in one if isinstance(word, str | Path))]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a task. `fatal`: an error concerns more than this file, so all other tasks would fail."""

    status: int
    out: bytes
    messages: tuple[Message, ...]
    error: str | None = None
    fatal: bool = False
    counts: ct.render.Tally | None = None
    unmatched: frozenset[str] | None = None


def apply(task: Task) -> Outcome:
    """Run a task. Errors become part of the outcome; none is raised."""
    with capturing(Captured(task.form in _MERGED)) as captured:
        fatal = False
        bounds.watch(task.words)
        try:
            if task.output is not None:
                captured.began = True  # an error concerns only this model: the outputs of others may be writable
                ct.files.make_directory(Path(task.output).parent)
                captured.began = False
            task.function(task.file, **task.options)
            status = 0
        except Exit as ended:
            status = ended.exit_code
        except ct.CircleToolsError as error:
            status = fail(error)
            general = isinstance(error, ct.UsageError) or not str(error).startswith(task.file)
            fatal = error.concerns_all or (general and not captured.began)
        except bounds.Exceeded as exceeded:
            status = fail(exceeded.error)
        except Exception as error:  # a bug in circletools, or memory ran out: the other files still run
            status = fail(
                ct.InvalidInputError(f"{type(error).__name__}: {error}", hint="try this file alone for details")
            )
        finally:
            bounds.stop()
    errors = [text for kind, text in captured.messages if kind == "error"]
    error_, out, messages = captured.error or next(iter(errors[-1:]), None), b"".join(captured.out), captured.messages
    counts, unmatched = captured.counts, captured.unmatched
    return _finished(task, Outcome(status, out, tuple(messages), error_, fatal, counts, unmatched))


def lost(task: Task, reason: str) -> Outcome:
    """Return the outcome of a task whose process died. Its exit status is 3, although the file may be valid."""
    error = str(ct.InvalidInputError(reason, location=task.file, hint="try this file alone for details"))
    return _finished(task, Outcome(3, b"", (("error", error),), error=error))


def _finished(task: Task, outcome: Outcome) -> Outcome:
    """Add the file's name to all messages and to the output, unless an error concerns all files."""
    if outcome.fatal:
        return outcome
    out = outcome.out or _of_error(task, outcome)
    if out and task.form == "csv":
        out = _with_column(task.file, out)
    elif out and task.form not in _MERGED and task.heading == "name":
        with capturing(Captured()) as captured:
            show([f"{task.file}:"])
        out = b"".join(captured.out) + out
    messages = tuple((kind, _naming(task.file, text)) for kind, text in outcome.messages)
    return replace(outcome, out=out, messages=messages)


def _naming(file: str, text: str) -> str:
    name = "<standard input>" if file == "-" else file
    return text if text.startswith(name) else f"{name}: {text}"


def _of_error(task: Task, outcome: Outcome) -> bytes:
    """Return the placeholder for a file without a result; empty in formats that do not merge several results."""
    error = outcome.error or "; ".join(text for _, text in outcome.messages)
    nothing = ct.checks.Judgement((), (), None, frozenset())
    match task.form:
        case "json":
            text = json.dumps({"file": task.file} | ct.render.error_json(outcome.status, error)) + "\n"
        case "sarif":
            text = json.dumps(ct.render.sarif_run("", task.file, (), (), _naming(task.file, error))) + "\n"
        case "junit":
            text = ct.render.junit_suite(task.file, nothing, error)
        case "gitlab":
            text = ct.render.judgement_gitlab(task.file, nothing, error)
        case _:
            text = ""
    return text.encode()


def _with_column(file: str, table: bytes) -> bytes:
    """Return a CSV table with the name of the file in front of every row."""
    csv.field_size_limit(max(csv.field_size_limit(), len(table)))  # a name may be long
    head, *rows = csv.reader(io.StringIO(table.decode("utf-8", "surrogateescape"), newline=""))
    text = ct.render.csv_text(["file", *head], ([file, *row] for row in rows))
    return text.encode("utf-8", "surrogateescape")
