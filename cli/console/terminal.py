"""Write results to standard output, and messages to standard error."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from shutil import get_terminal_size
from tempfile import SpooledTemporaryFile
from typing import Any

import circletools as ct

from ..signature import as_options
from . import bounds, captured, progress

_COLORS = {"error": "31", "warning": "33"}
_PARTS_AT_ONCE, _CHARACTERS_AT_ONCE = 64, 1 << 16  # crafted models have names of megabytes
_MOST_IN_MEMORY = 4 << 20  # bytes of a JSON document
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROLS |= {
    code: f"\\u{code:x}" for code in (*range(0x200E, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
_ON_SCREEN = {code: text for code, text in _CONTROLS.items() if chr(code) not in "\t\n"}


def print_diagnostic(kind: str | None, message: str) -> None:
    """Write `error: …` or `warning: …` to standard error, in color on a terminal unless NO_COLOR is set."""
    message = as_options(message)
    if (keep := captured.current()) is not None:
        keep.messages.append((kind, message))
        return
    if sys.stderr is None:
        return
    label = f"{kind}: " if kind else ""
    if kind in _COLORS and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        label = f"\033[{_COLORS[kind]}m{kind}:\033[0m "
    line = _encoded(f"{label}{_plain(message)}\n")
    with suppress(OSError), progress.hidden(line):  # if the terminal is gone, the exit status must suffice
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()


def print_message(message: str) -> None:
    """Write a message to standard error."""
    print_diagnostic(None, message)


def print_notes(notes: Iterable[ct.Finding], source: str = "") -> None:
    """Write a result's notes with their locations to standard error: `warning: net.circle: subgraphs[0]: …`."""
    for note in notes:
        kind = "note" if note.severity == "info" else note.severity
        print_diagnostic(kind, ": ".join(filter(None, (source, note.location, note.message))))


def fail(error: ct.CircleToolsError) -> int:
    """Write an error to standard error; return its exit status."""
    print_diagnostic("error", str(error))
    return error.exit_code


def show(lines: Iterable[str]) -> None:
    """Write lines of text to standard output as they are produced."""
    screen = sys.stdout is not None and sys.stdout.isatty()
    width = get_terminal_size().columns if screen else 0
    rest = (ct.render.fitted(line, width) for line in lines) if width else iter(lines)
    for some in _batches(rest):
        shown = some if "".join(some).isprintable() else map(_plain, some)
        show_text("\n".join(shown) + "\n")


def show_as(form: str, *values: Any, file: str | None = None, **writers: Callable[..., Any]) -> None:
    """Write a result to standard output in a format (text, json, ...), using the writer for that format in `writers`.

    `file` is the input as named on the command line; a JSON document begins with it.
    """
    if form == "json":
        show_json(writers[form](*values), file)
        return
    show_one = {"csv": show_text, "gitlab": show_text, "sarif": show_sarif, "junit": show_junit}.get(form, show)
    show_one(writers[form](*values))


def sum_up(models: Iterable[tuple[ct.render.Tally, bool]], *, statistics: bool) -> None:
    """Show the counts for all models: with `statistics` as a table, and for several models also as one line."""
    read = list(models)
    counts: Counter[tuple[str, str]] = Counter()
    for some, _ in read:
        counts.update(some)
    if statistics:
        show(ct.render.statistics_text(counts))
    if len(read) > 1:
        print_message(ct.render.summary_text(counts, len(read), sum(broken for _, broken in read)))


def bytes_shown() -> int:
    """Return how many bytes were written to standard output."""
    return captured.allowance().written


def show_text(text: str | Iterable[str]) -> None:
    """Write text, or parts of it as they are produced, to standard output unchanged."""
    for some in _batches([text] if isinstance(text, str) else text):
        show_bytes(_encoded("".join(some)))


def _batches(parts: Iterable[str]) -> Iterator[list[str]]:
    """Yield parts in order, several at once unless they are long."""
    batch, size = [], 0
    for part in parts:
        batch.append(part)
        size += len(part)
        if len(batch) == _PARTS_AT_ONCE or size > _CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def show_bytes(data: bytes) -> None:
    """Write bytes, with control characters escaped on a terminal. Raises InvalidInputError beyond the allowance."""
    captured.allowance().write(len(data))
    if (keep := captured.current()) is not None:
        keep.out.append(data)
        return
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    if sys.stdout.isatty():
        data = data.decode("utf-8", "backslashreplace").translate(_ON_SCREEN).encode()
    with progress.hidden(data):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _plain(text: str) -> str:
    """Escape control characters, so that names in a model cannot control the terminal."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def show_json(document: dict[str, Any], file: str | None = None) -> None:
    """Write a JSON document to standard output, with `file` first; on a single line if there are several models.

    Bytes in names that are not UTF-8 stay surrogate escapes. Iterators in the document become arrays. The document is
    shown only when it is complete, since it may be large and an error, or the limits, may end the command first.
    """
    whole = ({} if file is None else {"file": file}) | document
    whole |= {key: iter(value) for key, value in whole.items() if isinstance(value, list | tuple)}
    keep = captured.current()
    if keep is not None and keep.is_one_of_several:
        read = {key: list(value) if isinstance(value, Iterator) else value for key, value in whole.items()}
        show_text(json.dumps(read) + "\n")
        return
    with SpooledTemporaryFile(_MOST_IN_MEMORY) as made:
        for piece in _json_pieces(whole):
            made.write(_encoded(piece))
            captured.allowance().check(made.tell())
        bounds.stop()
        made.seek(0)
        for data in iter(partial(made.read, _MOST_IN_MEMORY), b""):
            show_bytes(data)


def _json_pieces(document: dict[str, Any]) -> Iterator[str]:
    """Yield the text that `json.dumps` writes for a document, with iterators written as arrays."""
    for number, (key, value) in enumerate(document.items()):
        yield f"{',' if number else '{'}\n  {json.dumps(key)}: "
        if not isinstance(value, Iterator):
            yield indented(value, "\n  ")
            continue
        before, count = "[", 1
        while some := list(islice(value, count)):
            yield before + (text := indented(some, "\n  ")[1:-4])
            before, count = ",", min(2 * count, _PARTS_AT_ONCE) if len(text) < _CHARACTERS_AT_ONCE else 1
        yield "[]" if before == "[" else "\n  ]"
    yield "\n}\n"


def show_sarif(run: Any) -> None:
    """Write a run to standard output as a SARIF log; if there are several models, only the run, on one line."""
    keep = captured.current()
    if keep is not None and keep.is_one_of_several:
        show_text(json.dumps(run) + "\n")
    else:
        show_text(indented(ct.render.sarif_log([run])) + "\n")


def show_junit(suite: str) -> None:
    """Write a suite to standard output as a JUnit document; if there are several models, only the suite."""
    keep = captured.current()
    alone = keep is None or not keep.is_one_of_several
    show_text(ct.render.JUNIT_BEGIN + suite + ct.render.JUNIT_END if alone else suite)


def _encoded(text: str) -> bytes:
    try:  # bytes that are not UTF-8 are written unchanged
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # JSON can contain surrogates that are not escaped bytes
        return text.encode("utf-8", "backslashreplace")


_BREAK = "\0"  # characters that JSON escapes
_PLAIN = frozenset({str, int, float, bool, type(None)})
_flat = json.JSONEncoder(separators=("," + _BREAK, ": ")).encode


def indented(value: Any, line: str = "\n") -> str:
    """Return a value as JSON, indented by two spaces per level; `line` is its parent's line break and indentation."""
    if not isinstance(value, dict | list | tuple) or not value:
        return json.dumps(value)
    deeper = line + "  "
    if not isinstance(value, dict):
        if all(type(one) is dict and one for one in value) and not _holds_more(chain(*map(dict.values, value))):
            deepest = deeper + "  "
            parts = _flat(value)[2:-2].replace(f"}},{_BREAK}{{", f"{deeper}}},{deeper}{{{deepest}")
            return f"[{deeper}{{{deepest}{parts.replace(_BREAK, deepest)}{deeper}}}{line}]"
        if _holds_more(value):
            return f"[{deeper}{f',{deeper}'.join([indented(one, deeper) for one in value])}{line}]"
    elif not all(isinstance(key, str) for key in value):
        return json.dumps(value, indent=2).replace("\n", line)
    elif _holds_more(value.values()):
        parts = f",{deeper}".join([f"{json.dumps(key)}: {indented(one, deeper)}" for key, one in value.items()])
        return f"{{{deeper}{parts}{line}}}"
    text = _flat(value)
    return f"{text[0]}{deeper}{text[1:-1].replace(_BREAK, deeper)}{line}{text[-1]}"


def _holds_more(values: Iterable[Any]) -> bool:
    return not _PLAIN.issuperset(map(type, values))
