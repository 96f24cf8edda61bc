"""One command on one file: its result and all its messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from circletool_cli.batch.task import Heading, Outcome, Task, apply, lost
from circletool_cli.console import captured, terminal
from typer import Exit

import circletools as ct


def saying(file: str, **options: Any) -> None:
    """Do what the options say."""
    if options.get("begin", True):
        captured.begin()
    if "recorded" in options:
        captured.record(options["recorded"], None)
    for kind, text in options.get("told", ()):
        terminal.print_diagnostic(kind, text)
    if "show" in options:
        terminal.show_text(options["show"])
    if "document" in options:
        terminal.show_json(options["document"], file)
    if options.get("error"):
        raise options["error"]


def outcome_of(file: str, *, heading: Heading = "name", **options: Any) -> Outcome:
    """Return what becomes of `saying`."""
    return apply(Task(saying, file, options, heading=heading))


@pytest.mark.parametrize(("options", "form"), [({}, "text"), ({"form": "csv"}, "csv")])
def test_the_form_that_options_ask_for(options: dict[str, Any], form: str) -> None:
    assert Task(saying, "f", options).form == form


def test_tasks_run_in_parallel_unless_exclusive() -> None:
    task = Task(saying, "f", {})
    assert (task.output, task.heading) == (None, "name")
    assert Outcome(0, b"", ()) == Outcome(0, b"", (), None, fatal=False)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (Exit(0), 0, None),
        (Exit(1), 1, None),
        (ct.UsageError("no"), 2, "f: no"),
        (ct.InvalidInputError("bad", location="f"), 3, "f: bad"),
        (ct.EditError("no", hint="do"), 4, "f: no (do)"),
        (ct.OutputError("full", location="out"), 4, "f: out: full"),
        (ValueError("x"), 3, "f: ValueError: x (try this file alone for details)"),
        (MemoryError(), 3, "f: MemoryError:  (try this file alone for details)"),
    ],
)
def test_how_a_command_ends(error: Exception, status: int, said: str | None) -> None:
    outcome = outcome_of("f", error=error)
    assert (outcome.status, outcome.out, outcome.fatal) == (status, b"", False)
    assert outcome.messages == (() if said is None else (("error", said),))
    assert (outcome.error is None) == (said is None)


@pytest.mark.parametrize(
    ("error", "began", "fatal"),
    [
        (ct.UsageError("no"), False, True),
        (ct.UsageError("no", location="f"), False, True),
        (ct.UsageError("no"), True, False),
        (ct.InvalidInputError("bad", location="rules.json"), False, True),
        (ct.InvalidInputError("bad", location="rules.json"), True, False),
        (ct.InvalidInputError("bad", location="f"), False, False),
        (ValueError(), False, False),
    ],
)
def test_errors_that_are_about_the_command_line_are_fatal(error: Exception, began: bool, fatal: bool) -> None:
    outcome = outcome_of("f", begin=began, error=error)
    assert outcome.fatal is fatal
    if fatal:  # reported unchanged: it is not about this file
        assert outcome.messages == (("error", str(error)),)


def test_messages_name_the_file_if_there_are_several() -> None:
    told = (("note", "a"), ("warning", "f: b"), (None, "c"))
    assert outcome_of("f", told=told).messages == (("note", "f: a"), ("warning", "f: b"), (None, "f: c"))
    assert outcome_of("-", told=((None, "x"), (None, "<standard input>: y"))).messages == (
        (None, "<standard input>: x"),
        (None, "<standard input>: y"),
    )


def test_the_error_of_an_outcome() -> None:
    told = (("error", "first"), ("error", "last"), ("warning", "w"))
    assert outcome_of("f", told=told).error == "last"
    assert outcome_of("f", told=told, recorded="recorded").error == "recorded"
    assert outcome_of("f", told=told[2:]).error is None


@pytest.mark.parametrize(("heading", "out"), [("name", b"f\\x1b:\none\n"), ("own", b"one\n"), ("line", b"one\n")])
def test_text_beside_others(heading: Heading, out: bytes) -> None:
    assert outcome_of("f\x1b", heading=heading, show="one\n").out == out
    assert outcome_of("f", heading=heading).out == b""


def test_a_table_beside_others() -> None:
    table = 'name,place\r\n"a,b",1\r\nc,2\r\n'
    outcome = outcome_of("x,y", form="csv", show=table)
    assert outcome.out.decode().splitlines() == ["file,name,place", '"x,y","a,b",1', '"x,y",c,2']
    assert outcome_of("f", form="csv").out == b""


def test_a_document_beside_others() -> None:
    def document(**options: Any) -> dict[str, Any]:
        out = outcome_of("f", form="json", **options).out
        assert out.count(b"\n") == 1
        read: dict[str, Any] = json.loads(out)
        return read

    assert document(document={"a": 1}) == {"file": "f", "a": 1}
    empty = {"file": "f", "schema_version": 1, "exit_status": 0, "error": None}
    assert document() == empty
    bad = ct.InvalidInputError("bad")
    assert document(error=bad) == {**empty, "exit_status": 3, "error": "bad"}
    assert document(told=(("warning", "w"), (None, "t"))) == {**empty, "error": "w; t"}
    assert document(recorded="r", told=(("warning", "w"),)) == {**empty, "error": "r"}


def test_the_directory_of_a_result_is_made(tmp_path: Path) -> None:
    output = tmp_path / "a" / "b" / "out"
    outcome = apply(Task(saying, "f", {}, str(output)))
    assert (outcome.status, output.parent.is_dir(), output.exists()) == (0, True, False)
    output.write_bytes(b"")
    outcome = apply(Task(saying, "f", {}, str(output / "below")))
    assert (outcome.status, outcome.fatal) == (4, False)
    assert outcome.error is not None
    assert outcome.error.startswith(f"{output}: cannot make the directory: ")


def test_a_task_that_was_lost() -> None:
    said = "f: it ended (try this file alone for details)"
    assert lost(Task(saying, "f", {}), "it ended") == Outcome(3, b"", (("error", said),), error=said)
    document = json.loads(lost(Task(saying, "f", {"form": "json"}), "it ended").out)
    assert document == {"file": "f", "schema_version": 1, "exit_status": 3, "error": said}
