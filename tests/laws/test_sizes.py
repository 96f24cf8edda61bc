"""Files, functions and lists of parameters stay small enough to be taken in at a glance."""

from __future__ import annotations

import ast

from tests.laws.source import FOLDERS, files, name_of, text_of

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 7


def too_large(source: str, *, command: bool = False) -> list[str]:
    """Return what of a file is larger than it may be; a command has as many parameters as it has options."""
    found = []
    lines = len(source.splitlines())
    if lines > MOST_LINES_OF_A_FILE:
        found.append(f"{lines} lines")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or 0) - node.lineno + 1
        if lines > MOST_LINES_OF_A_FUNCTION:
            found.append(f"{node.name}: {lines} lines")
        taken = node.args
        names = [
            one.arg for one in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg) if one
        ]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > MOST_PARAMETERS and not command:
            found.append(f"{node.name}: {count} parameters")
    return found


def test_nothing_is_too_large() -> None:
    names = {name_of(path): text_of(path) for path in files(*FOLDERS)}
    found = {name: too_large(text, command=name.startswith("cli/commands/")) for name, text in names.items()}
    assert {name: what for name, what in found.items() if what} == {}


def test_what_is_too_large_is_seen() -> None:
    assert too_large("\n" * 400) == []
    assert too_large("\n" * 401) == ["401 lines"]
    assert too_large("def f():\n" + "    x\n" * 59) == []
    assert too_large("class C:\n    def f(self):\n" + "        x\n" * 60) == ["f: 61 lines"]
    assert too_large("def f(a, b, c, d, /, e, *, f, g): ...") == []
    assert too_large("async def f(a, b, c, d, /, e, *, f, g, h): ...") == ["f: 8 parameters"]
    assert too_large("def f(self, a, b, c, d, e, *f, **g): ...") == []
    assert too_large("def f(self, a, b, c, d, e, f, *g, **h): ...") == ["f: 8 parameters"]
    assert too_large("def f(a, b, c, d, e, f, g, h): ...", command=True) == []
