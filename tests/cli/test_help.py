"""Help, completion, start-up, and where commands and options of earlier versions went."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from circletool_cli import moved, table
from circletool_cli.main import app
from circletool_cli.table import COMMANDS, Row

import circletools as ct
from tests.kit.affinity_support import with_affinity
from tests.kit.bundles import task
from tests.kit.origin_support import embedded
from tests.kit.presence import need_extra
from tests.kit.program import MLP, TRACE, Ran, put, run
from tests.kit.support import TESTDATA, bytes_of

NAMES = {row.name: row for row in COMMANDS}
# One operator of MLP, as onert writes it.
OPERATOR_TRACE = json.dumps(
    [{"name": "@2 Softmax", "tid": "$0 sess, $0 subg, cpu", "ph": phase, "ts": "1"} for phase in ("B", "E")]
)
WITHOUT_TABLES = {
    "dump-origins": 1, "export-affinity": 4, "split": 4, "verify-split": 3, "measure": 3,
}  # fmt: skip
"""Exit statuses of the examples on models without the tables that they read."""


def test_commands_are_listed_by_group_files_first() -> None:
    ran = run("--help")
    assert (ran.status, ran.err) == (0, "")
    assert run("-h") == ran
    text = ran.out.decode()
    assert re.findall(r"^(\w+):$", text, re.M)[1:] == list(table.GROUPS)
    listed = dict(re.findall(r"^  ([a-z][a-z-]+)  +([A-Z].*\.)$", text, re.M))
    summaries = {row.name.split()[0]: row.summary for row in COMMANDS} | table.VERBS
    assert listed == summaries, "each once, and whole"
    assert len(listed) <= 34
    assert "0 success, 1 findings, 2 usage error, 3 unreadable or invalid" in text


@pytest.mark.parametrize("row", COMMANDS, ids=NAMES)
def test_help_of_a_command(row: Row) -> None:
    lines = run(*row.name.split(), "--help").out.decode().splitlines()
    text = "\n".join(lines)
    assert run(*row.name.split(), "-h").out.decode().splitlines() == lines
    assert re.fullmatch(rf"Usage: circletool {row.name} \[OPTIONS\]( [A-Z]+(\.\.\.)?)+( \[(OUT|B)\])?", lines[0])
    assert lines[2].strip() == row.summary == (inspect.getdoc(row.function) or "").partition("\n\n")[0]
    arguments = text.split("Arguments:\n")[1].split("\n\n")[0]
    for word in lines[0].split("[OPTIONS]")[1].split():
        assert re.search(rf"^  (\S+ )?{re.escape(word.strip('[]'))} +\w", arguments, re.M)
    assert " ".join(text.split()).endswith(f"Example: circletool {row.name} {row.example}")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("row", COMMANDS, ids=NAMES)
def test_the_example_of_a_command_runs(row: Row, tmp_path: Path) -> None:
    words = [*row.name.split(), *row.example.split(), *(("--seconds", "0.01") if row.name == "measure" else ())]
    for name in ("in", "b", "edited", "out"):
        put(tmp_path / f"{name}.circle", MLP.read_bytes())
    for name in ("in", "a"):
        put(tmp_path / f"{name}.tflite", bytes_of("tflite/cnn"))
    put(tmp_path / "heads.tflite", bytes_of("tflite/output_twice"))
    for name in ("trace", "before", "after"):
        put(tmp_path / f"{name}.html", TRACE.read_bytes())
    put(tmp_path / "trace.chrome.json", OPERATOR_TRACE)
    put(tmp_path / "face.tflite", bytes_of("tflite/cnn"))
    put(tmp_path / "face.task", task([("face.tflite", bytes_of("tflite/scalar"))]))
    put(tmp_path / "labels.txt", b"1\n2\n3\n4\n5\n")
    assert run(*words, cwd=tmp_path).status == WITHOUT_TABLES.get(row.name, 0)
    annotated = with_affinity(embedded(MLP.read_bytes()), ["cpu"], default="cpu")
    for name in ("in", "out") if row.name == "export-affinity" else ("out",):
        put(tmp_path / f"{name}.circle", annotated)
    if row.name in ("verify-split", "measure"):
        assert run("split", "out.circle", "parts", cwd=tmp_path).status == 0
    ran = run(*words, cwd=tmp_path)
    need_extra(ran.err)
    assert ran.status == 0


@pytest.mark.parametrize(("old", "new"), moved.COMMANDS.items(), ids=list(moved.COMMANDS))
def test_a_command_that_moved_names_its_new_place(old: str, new: str) -> None:
    for words in ([old], [old, "in.circle"], [old, "--help"]):
        ran = run(*words)
        assert ran.status == 2
        assert f"error: '{old}' is now 'circletool {new}'" in ran.err


@pytest.mark.parametrize(("old", "new"), moved.OPTIONS.items(), ids=list(moved.OPTIONS))
def test_an_option_that_was_renamed_names_the_new_one(old: str, new: str) -> None:
    ran = run("partition", "in.circle", old, "x")
    assert ran.status == 2
    assert f"error: {old} is now {new}\n" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Usage: circletool [OPTIONS] COMMAND"),
        (["inspekt"], "No such command 'inspekt'"),
        (["inspekt"], "'inspect'"),
        (["metadata"], "Usage: circletool metadata"),
        (["inspect"], "Missing argument 'IN...'"),
        (["--jobs", "2", "inspect"], "No such option"),
        (["metadata", "remove", "a", "b", "c"], "unexpected extra argument(s) (c); write --name NAME"),
        (["fit", str(MLP), "--on", "ethos-u"], "(write 'ethos-u55', 'ethos-u65', 'ethos-u85')"),
        (["inspect", "a", "--verbose"], "No such option: --verbose\n"),
        (["verify-split", "a", "--runtime", "none"], "No such option: --runtime (Possible options: --on)"),
        (["rename", "a", "-o", "b"], "No such option: -o; write OUT after IN, without an option"),
        ([str(MLP)], f"no command is given (write circletool check {MLP})"),
        (["trace-stats", str(MLP.parent)], f"{MLP.parent}: this is a directory (name the files in it)"),
        (["fix-outputs", "a", "b", "--copy-operator", "permute"], "'permute' is not one of 'auto'"),
        (["check", "a", "--json", "--format", "sarif"], "--json and --format sarif cannot be combined"),
        (["partition", "a", "--min-size", "0"], "greater than or equal to 1"),
    ],
)
def test_usage_errors(words: list[str], message: str) -> None:
    ran = run(*words)
    assert (ran.status, ran.out) == (2, b"")
    assert message in ran.err


def test_versions_and_two_dashes() -> None:
    assert run("--version") == run("--version", "inspect") == Ran(0, f"circletool {ct.__version__}\n".encode(), "")
    assert run("--", "check", MLP).out.endswith(b": ok\n")
    assert app(["check", str(MLP)], standalone_mode=False) == 0
    done = subprocess.run([sys.executable, "-m", "circletools", "--help"], capture_output=True, check=True)
    assert done.stdout == run("--help").out


def test_an_empty_file_name_is_refused() -> None:
    assert run("check", "").status == run("embed-origins", "", "out").status == 3


IMPORTED = """
import os, sys
from contextlib import suppress
from circletool_cli.main import main
assert 'numpy' not in sys.modules
with suppress(SystemExit):
    main()
print(os.environ['OPENBLAS_THREAD_TIMEOUT'], *sys.modules, file=sys.stderr)
"""


def imported(*words: str | Path, **env: str) -> tuple[str, set[str]]:
    """Return how long threads of numpy wait, and the modules that the program has imported when it ends."""
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    command = [sys.executable, "-c", IMPORTED, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=others | env)
    timeout, *modules = done.stderr.splitlines()[-1].split()
    return timeout, set(modules)


@pytest.mark.parametrize("words", [["--help"], ["--version"], [], ["no-such-command"], ["embed-origins", "--help"]])
def test_help_imports_no_room(words: list[str]) -> None:
    timeout, modules = imported(*words)
    assert timeout == "4", "threads of numpy sleep early"
    assert modules.isdisjoint({"numpy", "flatbuffers", "rich", "pydantic", "circletools.model", "multiprocessing"})
    assert {name for name in modules if name.startswith("circletool_cli.commands.")} <= {
        f"circletool_cli.commands.{name}"
        for name in ("origins", "parameters", "rewriting")
        if words[:1] == ["embed-origins"]
    }


def test_a_command_imports_what_it_uses() -> None:
    timeout, modules = imported("inspect", MLP, "--subgraph", "0", OPENBLAS_THREAD_TIMEOUT="20")
    assert timeout == "20", "unless somebody chose otherwise"
    assert "circletool_cli.commands.inspecting" in modules
    assert modules.isdisjoint(
        {"circletool_cli.commands.traces", "circletools.affinity", "multiprocessing", "pydantic"}
    )


CNN = TESTDATA / "tflite" / "cnn.tflite"
VALUES = {
    "fit m.tflite --on ethos-u5": ["ethos-u55"],
    "fit m.tflite --on xnnpack,ethos-u6": ["xnnpack,ethos-u65"],
    "partition m.tflite --capabilities npu=litert-g": ["npu=litert-gpu"],
    "check --explain DUPLICATE_O": ["DUPLICATE_OUTPUT"],
    "check m.tflite --ignore NOT_USED,SCHEMA": ["NOT_USED,SCHEMA_VERSION"],
    "repair a b --only CONSTANT_O": ["CONSTANT_OUTPUT"],
    "check m.tflite --with on": ["onert", "onert:ruy"],
    "compare m.tflite --on litert:reference,openv": ["litert:reference,openvino", "litert:reference,openvino:CPU"],
    "requires m.tflite --runtime litert-1.4": ["litert-1.4.0"],
    "measure parts --on npu=onert:r": ["npu=onert:ruy"],
    f"metadata get {CNN} min": ["min_runtime_version"],
    f"metadata set {CNN} --name min": ["min_runtime_version"],
    f"metadata rename {CNN} --name min": ["min_runtime_version"],
}


def test_completion() -> None:
    def complete(words: str, position: int) -> list[str]:
        protocol = {"_CIRCLETOOL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        return sorted(run(env=protocol).out.decode().splitlines())

    assert complete("circletool e", 1) == ["embed-origins", "export-affinity", "expose", "extract"]
    assert complete("circletool metadata re", 2) == ["remove", "rename"]
    assert complete("circletool embed-origins --na", 2) == ["--names"]
    for words, offered in VALUES.items():
        assert {*offered} <= {*complete(f"circletool {words}", len(words.split()))}, words
    script = run(env={"_CIRCLETOOL_COMPLETE": "source_bash"}).out
    assert b"_CIRCLETOOL_COMPLETE=complete_bash" in script
    assert subprocess.run(["bash", "-n"], input=script, check=False).returncode == 0  # noqa: S607
