"""The notebooks of the documentation, run without Jupyter: each in a process of its own, in its folder.

    python -m tests.kit.notebooks NOTEBOOK

prints what each code cell shows, as JSON: what it printed, and its last value as HTML, or as text where it has none.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def code_cells(path: Path) -> list[Mapping[str, Any]]:
    """Return the cells with code."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def kept(cell: Mapping[str, Any]) -> list[str]:
    """Return what a cell shows in its file."""
    shown = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        shown.append("".join(data.get("text/html") or data.get("text/plain") or output["text"]))
    return shown


def run(path: Path) -> list[list[str]]:
    """Return what each cell shows now."""
    command = [sys.executable, "-m", __name__, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    shown: list[list[str]] = json.loads(done.stdout)
    return shown


def _shown(source: str, names: dict[str, Any]) -> list[str]:
    """Run a cell; return what it shows."""
    body = ast.parse(source).body
    last = body[-1] if body and isinstance(body[-1], ast.Expr) else None
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body[:-1] if last else body, []), "cell", "exec"), names)  # noqa: S102  (our own)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    shown = [] if value is None else [getattr(value, "_repr_html_", value.__repr__)()]
    return [text for text in (printed.getvalue(), *shown) if text]


def _main(path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [_shown("".join(cell["source"]), names) for cell in code_cells(path)]
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    notebook = Path(sys.argv[1]).resolve()
    os.chdir(notebook.parent)
    _main(notebook)
