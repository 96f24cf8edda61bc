"""The table of commands: what it says is what the commands say, and only the one that runs is imported."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Literal, get_args, get_origin

import pytest
from circletool_cli.main import app
from circletool_cli.signature import parameters_of
from circletool_cli.table import COMMANDS, Row

from tests.kit.command_support import run
from tests.kit.support import path_of

WIDTH = 78 - len("  annotate-affinity    ")


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_a_command_begins_with_its_summary(row: Row) -> None:
    text = inspect.getdoc(row.function) or ""
    assert text.partition("\n\n")[0] == row.summary
    assert len(row.summary) <= WIDTH, "the list of commands would cut it"
    assert row.summary.endswith(".")


def test_help_has_every_command_whole() -> None:
    shown = run("--help").stdout
    for row in COMMANDS:
        assert f"  {row.name:<17}  {row.summary}\n" in shown
    assert len({row.name for row in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_the_help_of_a_command_has_its_example(row: Row) -> None:
    shown = " ".join(run(row.name, "--help").stdout.split())
    assert shown.startswith(f"Usage: circletool {row.name} [OPTIONS] ")
    assert shown.endswith(f"Example: circletool {row.name} {row.example}")


def imported(*words: str) -> set[str]:
    code = (
        "import sys; from circletool_cli.main import main; from contextlib import suppress\n"
        "with suppress(SystemExit): main()\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], [], ["no-such-command"]])
def test_help_imports_no_command_and_no_room(words: list[str]) -> None:
    modules = imported(*words)
    assert {name for name in modules if name.startswith("circletool_cli.commands.")} == set()
    assert modules.isdisjoint({"numpy", "circletools.model", "circletools.storage", "multiprocessing"})


@pytest.mark.parametrize(("given", "there"), [({}, "4"), ({"OPENBLAS_THREAD_TIMEOUT": "20"}, "20")])
def test_threads_of_numpy_sleep_unless_somebody_says_otherwise(given: dict[str, str], there: str) -> None:
    """The library reads it from the process, when it is loaded: before anything imports numpy."""
    code = (
        "import os, sys; from circletool_cli.main import main; from contextlib import suppress\n"
        "assert 'numpy' not in sys.modules\n"
        "with suppress(SystemExit): main()\n"
        "print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    )
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    command = [sys.executable, "-c", code, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=others | given)
    assert done.stdout.splitlines()[-1] == there


def test_a_command_imports_no_other() -> None:
    modules = imported("inspect", str(path_of("circle/mlp")))
    assert "circletool_cli.commands.inspecting" in modules
    assert "circletool_cli.commands.traces" not in modules
    assert "circletools.affinity" not in modules


@pytest.mark.parametrize(
    ("words", "converts"),
    [
        ((), False),
        (("--ignore", "NOT_USED"), False),
        (("--fail-on", "error", "--format", "json"), False),
        (("--jobs", "1"), True),
    ],
)
def test_texts_choices_and_defaults_need_no_conversion(words: tuple[str, ...], converts: bool) -> None:
    """What typer converts values with takes long to import, in versions that have it."""
    modules = imported("check", *words, str(path_of("circle/mlp")))
    assert ("typer._adapters" in modules) == (converts and find_spec("typer._adapters") is not None)


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_defaults_are_what_options_would_give(row: Row) -> None:
    for one in parameters_of(row.function):
        kind = (get_args(one.annotation) or (one.annotation,))[0]
        if one.default is not inspect.Parameter.empty and one.default is not None:
            assert one.default in get_args(kind) if get_origin(kind) is Literal else type(one.default) is kind


def test_an_empty_file_name_is_refused() -> None:
    assert run("check", "").returncode == run("embed-origins", "", "out").returncode == 3
    assert run("check").returncode == 2


def test_two_dashes_may_stand_before_a_command() -> None:
    assert run("--", "verify", path_of("circle/mlp")).stdout.endswith(": ok\n")


def test_words_before_the_command() -> None:
    assert run("--version", "inspect").stdout == run("--version").stdout
    assert run("--jobs", "2", "inspect").returncode == 2


@pytest.mark.parametrize(
    ("typed", "meant"), [("inspekt", "'inspect'"), ("dump-origin", "'dump-origins'"), ("qqqq", None)]
)
def test_an_unknown_command_gets_the_one_it_looks_like(typed: str, meant: str | None) -> None:
    ran = run(typed)
    assert ran.returncode == 2
    assert f"Error: No such command '{typed}'." in ran.stderr
    assert (f"Did you mean {meant}" in ran.stderr) == (meant is not None)


def test_the_application_can_be_called_with_words() -> None:
    assert app(["verify", str(path_of("circle/mlp"))], standalone_mode=False) == 0


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "circletools", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == run("--help").stdout
