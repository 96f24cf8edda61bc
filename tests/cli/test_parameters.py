"""What each command takes: its parameters, what they are where they are left out, and the numbers they allow.

    python -m tests.cli.test_parameters

records them again, after a change that is meant.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

import pytest
from circletool_cli.batch.options import BatchOptions
from circletool_cli.table import COMMANDS, Row

from tests.kit.command_support import run

FUNCTIONS = {row.name: row.function for row in COMMANDS}
EXPECTED = Path(__file__).with_name("expected") / "parameters.txt"
NEEDED = {
    "embed-origins": ["OUT"],
    "extract-origins": ["DIR"],
    "track-origins": ["AFTER", "OUT"],
    "fix-outputs": ["OUT"],
    "annotate-affinity": ["OUT", "--devices", "cpu"],
    "partition": ["--devices", "cpu"],
    "export-affinity": ["--to", "part"],
    "split": ["DIR"],
    "extract": ["OUT", "--ops", "0"],
    "rename": ["OUT", "--input", "0=x"],
    "signature": ["OUT", "--add", "x"],
    "reorder": ["OUT", "--inputs", "0"],
    "expose": ["OUT", "--every", "ADD"],
    "strip-metadata": ["OUT", "--origins"],
    "compact": ["OUT"],
    "fit": ["--on", "xnnpack"],
    "diff": ["B"],
    "attest": ["NEW"],
    "trace-compare": ["B"],
    "trace-export": ["OUT", "--to", "chrome"],
    "attribute": ["--model", "M"],
    "report": ["-o", "OUT"],
}
"""What a command needs beside the file that it reads first, to get as far as opening that."""


def parameters(name: str) -> list[str]:
    """Return a line for each parameter of a command: its name, its default if it has one, its range if it has one."""
    return [_line(parameter) for parameter in inspect.signature(FUNCTIONS[name], eval_str=True).parameters.values()]


def _line(parameter: inspect.Parameter) -> str:
    kind, told = get_args(parameter.annotation)[:2]
    names = [name for name in (told.default, *(told.param_decls or ())) if isinstance(name, str)]
    words = ["/".join(names) or told.metavar]
    if parameter.default is not inspect.Parameter.empty:
        words.append(f"= {parameter.default!r}")
    if told.min is not None or told.max is not None:
        words.append(f"from {told.min} to {told.max}")
    if getattr(kind, "__origin__", None) is list or "list[" in str(kind):
        words.append("(several)")
    return " ".join(words)


def expected() -> dict[str, list[str]]:
    blocks = [block.splitlines() for block in EXPECTED.read_text(encoding="utf-8").split("\n\n")]
    return {name: [line.strip() for line in lines] for name, *lines in blocks}


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_what_a_command_takes(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parameters(row.name) == expected().get(row.name)
    ran = run(row.name, "missing", *NEEDED.get(row.name, ()))
    assert ran.returncode == (2 if row.name == "explain" else 3)  # it reads no file
    assert "missing" in (ran.stderr or ran.stdout)
    assert list(tmp_path.iterdir()) == []


def test_the_options_of_commands_for_several_files() -> None:
    assert BatchOptions() == (1, None, False, None)


if __name__ == "__main__":
    blocks = ("\n  ".join([name, *parameters(name)]) for name in FUNCTIONS)
    EXPECTED.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
