"""Every command, given hostile files that it reads: a value or one clear error, in bounds, no half output.

Limits: a gigabyte of addresses and 20 seconds of the processor for each run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import IO, NamedTuple

import numpy as np
import pytest
from circletool_cli.table import COMMANDS

from circletools.errors import ModelFormatError
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from circletools.origin.tracking.constants import Constants
from circletools.origin.tracking.view import Side, look
from fuzz.commands import READERS, SOUND, commands_for, words_of
from fuzz.content import content
from fuzz.parts import annotated, split_files
from tests.kit.attacks import EDIT, Attack, attacks
from tests.kit.support import ROOT

MOST_BYTES, SECONDS = 1 << 30, 20
LONGEST_MESSAGE = 6000
EDITS = ("embed-origins", "fix-outputs", "annotate-affinity", "metadata remove", "compact")
SURGERY = ("extract", "rename", "signature", "reorder", "set-shape", "expose")


def test_every_command_is_attacked() -> None:
    assert READERS.keys() == {row.name for row in COMMANDS}
    assert all(commands_for(attack.kind) for attack in attacks())


ENDINGS = {
    **dict.fromkeys(("rules", "capability", "costs", "baseline", "origins-json"), ".json"),
    **{"part": ".part", "origins-csv": ".csv"},
}


class Ran(NamedTuple):
    """How a run ended."""

    status: int
    err: str
    seconds: float
    most_bytes: int


class Runner:
    """The program under limits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # One thread and one arena: else the addresses that libraries set aside are most of the limit.
        quiet = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.attacks.runner", str(MOST_BYTES), str(SECONDS)],
            cwd=ROOT,
            env=os.environ | quiet,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def run(self, argv: list[str]) -> Ran:
        """Run the program in the folder."""
        err = self.folder / "stderr"
        request = {"argv": argv, "cwd": str(self.folder), "out": str(self.folder / "stdout"), "err": str(err)}
        stream: IO[str] | None = self.process.stdin
        assert stream is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=stream, flush=True)
        answer = json.loads(self.process.stdout.readline())
        return Ran(
            answer["status"], err.read_bytes().decode("utf-8", "replace"), answer["seconds"], answer["most_bytes"]
        )

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    pytest.importorskip("resource")  # with which it limits what it runs
    one = Runner(tmp_path_factory.mktemp("attacks"))
    yield one
    one.close()


def expected(attack: Attack, command: str) -> int | None:
    name = next(row.name for row in COMMANDS if command.startswith(f"{row.name} "))
    if "--structure-only" in command:
        name = "structure"
    if "--names" in command:  # there need not be any
        return None
    return attack.expect.get(name, attack.expect.get(EDIT) if name in EDITS else None)


def check_run(ran: Ran, command: str, hostile: Path, out: Path, wanted: int | None) -> None:
    """Fail unless a run did what any run may do."""
    assert 0 <= ran.status <= 5, (command, ran)
    assert "Traceback" not in ran.err, (command, ran)
    if wanted is not None:
        assert ran.status == wanted, (command, ran)
    lines = ran.err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for line in lines for character in line), (
        command
    )
    assert all(len(line) < LONGEST_MESSAGE for line in lines), (command, max(map(len, lines)))
    if ran.status in (0, 1, 5):
        return
    assert len(errors) == 1, (command, ran)
    assert any(str(path) in errors[0] for path in (hostile, *ROOT.glob("testdata/*/*"))) or ran.status == 2, (
        command,
        ran,
    )
    assert not out.is_file(), f"{command} failed and left an output"


def check_output(hostile: bytes, out: Path, command: str) -> None:
    """Fail unless an edit that was made gives a model that holds what the hostile one held."""
    name = next(row.name for row in COMMANDS if command.startswith(f"{row.name} "))
    if "--structure-only" in command:
        name = "structure"
    if name not in (*EDITS, *SURGERY):
        return
    with open_model(out) as after:
        assert not check_errors(after)
    if name in SURGERY or "--prune" in command:
        return
    try:
        old = content(hostile)
    except ModelFormatError:  # what shares too much can be carried, though not looked at
        return
    new = content(out.read_bytes())
    if name != "fix-outputs":
        assert old.subgraphs == new.subgraphs
        assert old.signatures == new.signatures


def check_errors(model: object) -> list[str]:
    from circletools.model.model import Model  # noqa: PLC0415
    from circletools.model.verify import check_model, is_dangling  # noqa: PLC0415

    assert isinstance(model, Model)
    return [finding.message for finding in check_model(model) if is_dangling(finding)]


EVERY, KNOWN = (1, 1) if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else (16, 4)
"""An attack is tried on one in so many command lines, and of those whose end is known; others for the next one."""


def test_every_command_line_is_tried() -> None:
    asked = {line for number, attack in enumerate(attacks()) for line in lines_for(number, attack)}
    assert asked == {line for attack in attacks() for line in commands_for(attack.kind)}


def lines_for(number: int, attack: Attack) -> list[str]:
    lines = commands_for(attack.kind)
    return [
        line
        for at, line in enumerate(lines)
        if (at - number) % (EVERY if expected(attack, line) is None else KNOWN) == 0
    ]


@pytest.mark.parametrize(
    ("number", "attack"), [pytest.param(number, one, id=one.name) for number, one in enumerate(attacks())]
)
def test_an_attack(number: int, attack: Attack, runner: Runner) -> None:
    data = attack.make()
    hostile = runner.folder / f"hostile{ENDINGS.get(attack.kind, '.circle')}"
    hostile.write_bytes(data)
    before = {path.name for path in runner.folder.iterdir()} | {"stdout", "stderr"}
    for command in lines_for(number, attack):
        out = runner.folder / "out"
        ran = runner.run(words_of(command, hostile, out))
        check_run(ran, command, hostile, out, expected(attack, command))
        if ran.status == 0 and out.is_file() and SOUND.name not in command:
            check_output(data, out, command)
        remove(out)
        assert {path.name for path in runner.folder.iterdir()} <= before, command
    assert hostile.read_bytes() == data


_CONNECTIONS = "model.part.conn.json"
_HOSTILE_CONNECTIONS = {
    "empty": b"",
    "deep": b"[" * 100_000,
    "integer": b"9" * 100_000,
    "twice": b'{"parts": [], "parts": [], "source": {"file": "model.circle", "inputs": [], "outputs": []}}',
    "no-parts": b'{"parts": [], "source": {"file": "model.circle", "inputs": [], "outputs": []}}',
    "names-alone": b'{"parts": ["a"], "source": "b"}',
    **{
        f"file-{number}": json.dumps(
            {name: [one] if name == "parts" else one for name in ("source", "parts")}
            if (one := {"file": file, "inputs": [], "outputs": []})
            else {}
        ).encode()
        for number, file in enumerate(("../model.circle", "/etc/passwd", "", ".", "..", "a\0b", "x" * 5000, "\ud800"))
    },
}


@pytest.mark.parametrize("name", _HOSTILE_CONNECTIONS)
def test_hostile_connections_of_a_split(name: str, runner: Runner) -> None:
    folder, source = runner.folder / "parts", runner.folder / "model.circle"
    for file, held in {**split_files(), _CONNECTIONS: _HOSTILE_CONNECTIONS[name]}.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(held)
    source.write_bytes(annotated())
    options = {"verify-split": "--on none", "measure": "--on npu=onert --on cpu=onert"}
    commands = [f"{name} {folder} --source {source} {words}" for name, words in options.items()]
    done = [runner.run(command.split()) for command in commands]
    remove(folder)
    source.unlink()
    for ran, command in zip(done, commands, strict=True):
        check_run(ran, command, folder, runner.folder / "out", None)
        assert ran.status in (1, 3)


def test_one_of_many_makers_of_a_tensor_counts() -> None:
    """Else tracking takes each of them times each operator that reads the tensor."""
    data = next(attack for attack in attacks() if attack.name == "producers-many").make()
    with open_model(data) as model:
        graph = graph_of(model, 0)
        none, nothing = np.full(len(graph.values), -1), np.zeros(0, np.bool_)
        shown = look(
            Side(graph, graph.values.names, none, none, Constants(nothing, nothing, nothing)),
            np.zeros(len(graph), np.bool_),
        )
        made = [value for row in shown.made for value in row]
    assert len(made) == len(set(made)) == 2


def remove(path: Path) -> None:
    if path.is_dir():
        rmtree(path)
    else:
        path.unlink(missing_ok=True)
