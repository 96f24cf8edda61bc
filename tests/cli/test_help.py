"""Help, completion, and start-up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from circletool_cli import table

from tests.kit.affinity_support import with_affinity
from tests.kit.origin_support import embedded
from tests.kit.presence import need_extra
from tests.kit.program import MLP, TRACE, Ran, put, run
from tests.kit.support import bytes_of

COMMANDS = [row.name for row in table.COMMANDS]
# One operator of MLP, as onert writes it.
OPERATOR_TRACE = json.dumps(
    [{"name": "@2 Softmax", "tid": "$0 sess, $0 subg, cpu", "ph": phase, "ts": "1"} for phase in ("B", "E")]
)


def test_commands() -> None:
    ran = run("--help")
    assert (ran.status, ran.err) == (0, "")
    listed = ran.out.decode().split("Look:\n")[1].split("\n\n  Exit")[0]
    assert sorted(re.findall(r"^  (\S+)", listed, re.M)) == sorted(COMMANDS)
    assert re.findall(r"^(\S+):$", listed, re.M) == list(table.GROUPS)[1:]
    assert run("-h") == ran
    assert run("fit", "-h") == run("fit", "--help")
    assert "0 done, 1 findings, 2 usage, 3 unreadable or invalid input, 4" in ran.out.decode()
    assert run().status == 2


def test_version() -> None:
    from circletools import __version__  # noqa: PLC0415

    assert run("--version") == Ran(0, f"circletool {__version__}\n".encode(), "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_an_example_that_runs(command: str, tmp_path: Path) -> None:
    ran = run(command, "--help")
    last = " ".join(ran.out.decode().strip().split("\n\n")[-1].split())
    assert last.startswith(f"Example: circletool {command} ")
    for name in ("in", "b", "edited", "out"):
        put(tmp_path / f"{name}.circle", MLP.read_bytes())
    for name in ("in", "a"):
        put(tmp_path / f"{name}.tflite", bytes_of("tflite/cnn"))
    put(tmp_path / "heads.tflite", bytes_of("tflite/output_twice"))
    for name in ("trace", "before", "after"):
        put(tmp_path / f"{name}.html", TRACE.read_bytes())
    put(tmp_path / "trace.chrome.json", OPERATOR_TRACE)
    words = [*last.split()[2:], *(("--seconds", "0.01") if command == "measure" else ())]
    bare = run(*words, cwd=tmp_path)
    needing = {"dump-origins": 1, "extract-origins": 1, "dump-affinity": 1, "export-affinity": 4}
    needing |= {"split": 4, "verify-split": 3, "measure": 3}
    assert bare.status == needing.get(command, 0)
    annotated = with_affinity(embedded(MLP.read_bytes()), ["cpu"], default="cpu")
    for name in ("in", "out") if command == "export-affinity" else ("out",):
        put(tmp_path / f"{name}.circle", annotated)
    if command in ("verify-split", "measure"):
        assert run("split", "out.circle", "parts", cwd=tmp_path).status == 0
    ran = run(*words, cwd=tmp_path)
    need_extra(ran.err)
    assert ran.status == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_usage_names_the_arguments_plainly(command: str) -> None:
    text = run(command, "--help").out.decode()
    usage = text.splitlines()[0]
    assert re.fullmatch(rf"Usage: circletool {command} \[OPTIONS\]( [A-Z]+(\.\.\.)?)+( \[OUT\])?", usage)
    section = text.split("Arguments:\n")[1].split("\n\n")[0]
    for word in usage.split()[4:]:
        assert re.search(rf"^  (\S+ )?{re.escape(word.strip('[]'))} +\w", section, re.M), section
    assert not re.search(r"list\[|<str>", text)


def test_wrong_options_are_told_in_plain_words() -> None:
    ran = run("fix-outputs", "a", "b", "--copy-op", "permute")
    assert ran.status == 2
    assert "Invalid value for '--copy-op': 'permute' is not one of" in ran.err


IMPORTED = """
import sys
from circletool_cli.main import main
try:
    main()
finally:
    heavy = ("numpy", "flatbuffers", "rich", "circletools.model", "circletools.flatbuf", "circletools.render.table")
    print(*(name for name in heavy if name in sys.modules), file=sys.stderr)
"""


def imported(*args: str | Path) -> list[str]:
    """Return which heavy modules the program has imported when it ends."""
    done = subprocess.run([sys.executable, "-c", IMPORTED, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


def test_imports() -> None:
    assert imported("--help") == imported("embed-origins", "--help") == imported("--version") == []
    # What is asked for is imported when it is used.
    assert imported("verify", MLP) == ["numpy", "flatbuffers", "circletools.model", "circletools.flatbuf"]


def test_completion() -> None:
    def complete(words: str, position: int) -> list[str]:
        words = f"circletool {words}"
        protocol = {"_CIRCLETOOL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        return run(env=protocol).out.decode().split()

    assert complete("e", 1) == ["embed-origins", "extract-origins", "export-affinity", "extract", "expose", "explain"]
    assert complete("embed-origins --na", 2) == ["--names"]
    assert complete("embed-origins --names t", 3) == ["tensor-names"]
    script = run(env={"_CIRCLETOOL_COMPLETE": "source_bash"}).out.decode()
    assert "_CIRCLETOOL_COMPLETE=complete_bash" in script
    assert subprocess.run(["bash", "-n"], input=script.encode(), check=False).returncode == 0  # noqa: S607
