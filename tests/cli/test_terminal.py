"""What reaches standard output and standard error, to the character."""

from __future__ import annotations

import errno
import io
import json
import sys

import pytest
from circletool_cli.console import terminal
from circletool_cli.console.captured import Captured, begin, capturing, current, naming, record

import circletools as ct


class Screen(io.TextIOWrapper):
    """A stream that claims to be a terminal, and keeps every piece written to it."""

    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        """Say whether this is a terminal."""
        return self._terminal

    @property
    def shown(self) -> str:
        """Return what was written."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


RED, YELLOW, PLAIN = "\033[31merror:\033[0m it\n", "\033[33mwarning:\033[0m it\n", "note: it\n"


@pytest.mark.parametrize(
    ("kind", "no_color", "shown"),
    [
        ("error", None, RED),
        ("error", "", RED),
        ("error", "1", "error: it\n"),
        ("warning", None, YELLOW),
        ("warning", "0", "warning: it\n"),
        ("note", None, PLAIN),
        (None, None, "it\n"),
    ],
)
def test_kinds_have_colors_on_a_terminal(
    kind: str | None, no_color: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    screen, pipe = Screen(), Screen(terminal=False)
    for stream in (screen, pipe):
        monkeypatch.setattr(sys, "stderr", stream)
        terminal.print_diagnostic(kind, "it")
    assert screen.shown == shown
    assert pipe.shown == f"{f'{kind}: ' if kind else ''}it\n"


def test_without_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdout", None)
    terminal.print_diagnostic("error", "nobody sees this")
    assert terminal.fail(ct.EditError("no")) == 4
    with pytest.raises(OSError, match="standard output is closed") as caught:
        terminal.show_text("x")
    assert caught.value.errno == errno.EBADF


def test_notes_are_reported_with_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := Screen(terminal=False))
    notes = [
        ct.Finding("NO_ORIGINS", "warning", "subgraphs[0]", "one"),
        ct.Finding("NOT_USED", "info", "", "two"),
        ct.Finding("NO_SUBGRAPH", "error", "", "three"),
    ]
    terminal.print_notes(notes, "net.circle")
    terminal.print_notes(notes[:1])
    assert pipe.shown.splitlines() == [
        "warning: net.circle: subgraphs[0]: one",
        "note: net.circle: two",
        "error: net.circle: three",
        "warning: subgraphs[0]: one",
    ]


def test_control_characters_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", pipe := Screen(terminal=False))
    every = "".join(map(chr, range(256)))
    terminal.show([every, "\u2028\u202e\ud7ff"])
    spelled = [f"\\x{code:02x}" if code < 32 or 127 <= code < 160 else chr(code) for code in range(256)]
    assert pipe.shown == "".join(spelled) + "\n\\u2028\\u202e\ud7ff\n"
    monkeypatch.setattr(sys, "stdout", screen := Screen())
    terminal.show_bytes(b"\tone\x1b]0;x\x07\x9b\n")
    assert screen.shown == "\tone\\x1b]0;x\\x07\\x9b\n"


def test_names_that_are_no_text_leave_as_they_came() -> None:
    with capturing(Captured()) as captured:
        terminal.show_text("\udcff")  # a byte
        terminal.show_text("\ud800\udcff")  # a surrogate without a byte: then all are escaped
    assert captured.out == [b"\xff", b"\\ud800\\udcff"]


def test_a_document_is_indented_alone_and_a_line_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"a": [1, {"b": "é"}]}
    monkeypatch.setattr(sys, "stdout", pipe := Screen(terminal=False))
    terminal.show_json(document)
    assert pipe.shown == '{\n  "a": [\n    1,\n    {\n      "b": "\\u00e9"\n    }\n  ]\n}\n'
    for several, shown in ((False, pipe.shown), (True, json.dumps({"file": "x", **document}) + "\n")):
        with capturing(Captured(several)) as captured:
            terminal.show_json(document, "x" if several else None)
        assert captured.out == [shown.encode()]


def test_what_is_recorded_where_output_is_captured() -> None:
    begin()
    record("no effect here", None)
    assert current() is None
    with capturing(Captured()) as captured:
        assert (captured.began, captured.error) == (False, None)
        begin()
        record("broken", {})
        terminal.print_diagnostic("error", "text")
        terminal.print_message("found")
    assert (captured.began, captured.error) == (True, "broken")
    assert captured.messages == [("error", "text"), (None, "found")]
    assert current() is None


def test_an_error_gets_the_name_of_its_file_once() -> None:
    def text(error: ct.CircleToolsError) -> str:
        with pytest.raises(type(error)), naming("outer"), naming("inner"):
            raise error
        return str(error)

    assert text(ct.InvalidInputError("bad", location="byte 3")) == "inner: byte 3: bad"
    assert text(ct.EditError("bad")) == "inner: bad"
    assert text(ct.UsageError("bad")) == "bad"
    assert text(ct.OutputError("bad", location="out")) == "out: bad"


def test_json_of_iterators_is_that_of_lists(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    plain = {"a": [1, {"b": [], "c": "x\ny"}], "none": [], "d": {"e": [2]}, "last": [[3]]}
    terminal.show_json({key: iter(value) if isinstance(value, list) else value for key, value in plain.items()})
    assert capfdbinary.readouterr().out.decode() == json.dumps(plain, indent=2) + "\n"
    for count in (1, 63, 64, 65, 128, 129):
        many = [{"at": at} for at in range(count)]
        terminal.show_json({"many": iter(many), "more": iter([])})
        assert capfdbinary.readouterr().out.decode() == json.dumps({"many": many, "more": []}, indent=2) + "\n"
    with pytest.raises(ZeroDivisionError):
        terminal.show_json({"many": (1 / (9999 - at) for at in range(10_000))})
    assert capfdbinary.readouterr().out == b""


def test_a_model_that_is_made_to_give_very_much_text_is_refused() -> None:
    with capturing(Captured()) as captured:
        terminal.show_bytes(bytes(300 << 20))  # about no model
    captured.out.clear()
    with capturing(Captured()) as captured:
        captured.allowance.read = 1 << 20
        terminal.show_bytes(bytes(210 << 20))
        with pytest.raises(ct.InvalidInputError, match="would be written for models of 1048576 bytes"):
            terminal.show_bytes(b"x")
