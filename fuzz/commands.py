"""The command lines that read each kind of file, for all fuzzers and attacks.

By command: the kinds of files that it reads, and its arguments. {} is the hostile file, and OUT the output. Of
several commands that read a kind of file in the same way, only some list it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pkgutil
import struct
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import circletool_cli  # type: ignore[import-not-found, unused-ignore] # the installed name
from circletool_cli.console.bounds import VARIABLE  # type: ignore[import-not-found, unused-ignore] # the installed name
from circletool_cli.main import app, main  # type: ignore[import-not-found, unused-ignore] # the installed name

import circletools
from circletools.errors import CircleToolsError
from tests.kit.support import ROOT, path_of

SOUND = path_of("circle/inception")
_TRACES = ("trace-text", "trace-html", "trace-packed", "trace-chrome", "trace-perfetto")
_PLAN = "{} --devices npu,cpu --set index:0=npu --default cpu --mode min"
READERS: dict[str, dict[str, str]] = {
    "inspect": {"models": "{} --json", "tables": "{} --digest"},
    "check": {"models tables": "{} --structure-only", "tables": "{}"},
    "requires": {"models tables": "{} --json"},
    "cost": {"models tables": "{} --by operator"},
    "fit": {
        "models tables": "{} --on xnnpack,onert-cpu --json",
        "capability": f"{SOUND} --on {{}}",
        "baseline": f"{SOUND} --on onert-ruy --baseline {{}}",
    },
    "compare": {"models tables": "{} --timeout 1"},
    "reduce": {"models tables": "{} OUT --while-refused litert:builtin --timeout 1"},
    "report": {"models tables": "{} -o OUT", "operators": f"{path_of('circle/mlp')} --trace {{}} -o OUT"},
    "compact": {"models": "{} OUT", "models tables": "{} OUT --prune --outputs"},
    "extract": {"models": "{} OUT --operators 0", "tables": "{} OUT --origin *"},
    "rename": {"models tables": "{} OUT --tensor *=new/*"},
    "signature": {"models": "{} OUT --add attack"},
    "replace": {"models": f"{{}}!0 {SOUND} OUT"},
    "repair": {"models tables": "{} OUT --only DUPLICATE_NAME --only INVALID_SIGNATURE --only OUTPUT_TAP"},
    "reorder": {"models": "{} OUT --inputs 0"},
    "set-shape": {"models tables": "{} OUT --batch 3 --mend"},
    "expose": {"models tables": "{} OUT --every *"},
    "embed-origins": {
        "models": "{} OUT --replace",
        "tables": "{} OUT --replace --names debug-metadata",
        "origins-json origins-csv": f"{SOUND} OUT --origins {{}}",
    },
    "fix-outputs": {"models tables": "{} OUT --subgraph all --detach-taps"},
    "annotate-affinity": {
        "models": _PLAN.replace("{}", "{} OUT"),
        "rules part": f"{SOUND} OUT --devices npu,cpu --rules {{}}",
        "capability": f"{SOUND} OUT --devices npu,cpu --default cpu --capabilities {{}}",
        "costs": f"{SOUND} OUT --devices npu,cpu --default cpu --costs {{}}",
    },
    "partition": {"tables": "{}", "rules part": f"{SOUND} --devices npu,cpu --rules {{}} --json"},
    "diff": {"models tables": f"{SOUND} {{}}", "models": "{} {} --attest", "tables": f"{SOUND} {{}} --attest --json"},
    "track-origins": {"models": f"{SOUND} {{}} OUT --replace", "tables": f"{{}} {SOUND} OUT"},
    "dump-origins": {"tables": "{} --json", "models tables": "{} --tables OUT"},
    "export-affinity": {"tables": "{} --to onert -o OUT"},
    "split": {"tables": "{} OUT"},
    "metadata list": {"models tables": "{} --json"},
    "metadata get": {"tables": "{} ONE_op_table -o OUT"},
    "metadata set": {"models": "{} OUT --name note --text x"},
    "metadata remove": {"tables": "{} OUT --origins --affinity"},
    "metadata describe": {"models tables": "{} OUT --name x --input 0=y"},
    "metadata labels": {"models": f"{{}} OUT --values --labels {ROOT / 'LICENSE'}"},
    "metadata rename": {"tables": "{} OUT --name ONE_op_table=x"},
    "trace-stats": {" ".join(_TRACES): "{} --json --per-execution"},
    "trace-export": {" ".join(_TRACES): "{} OUT --to perfetto"},
    "trace-compare": {"trace-text": "{} {}", "operators": "{} {} --operators"},
    "profile": {"origins-csv": f"{SOUND} --on litert --inputs {{}}"},
    "attribute": {"operators": f"{{}} --model {path_of('circle/mlp')}"},
    "verify-split": {"connections": "{}"},  # see `run`
    "measure": {"connections": "{}"},
}


def commands_for(kind: str) -> list[str]:
    """Return the command lines that read a kind of file."""
    return [
        f"{command} {words}"
        for command, kinds in READERS.items()
        for names, words in kinds.items()
        if kind in names.split()
    ]


def words_of(line: str, hostile: Path, out: Path) -> list[str]:
    """Return the arguments of a command line, with file names filled in."""
    return [str(out) if word == "OUT" else word.replace("{}", str(hostile)) for word in line.split()]


def load() -> None:
    """Import all modules that the commands import when they run, so that not every run imports them again."""
    for package in (circletools, circletool_cli):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ModuleNotFoundError):  # a module for a package that is not installed
                importlib.import_module(module.name)
    given = os.environ.get(VARIABLE)
    with suppress(CircleToolsError):  # imports the modules that the command line needs on first use
        app(["partition", "no such file"], standalone_mode=False)
    if given is None:
        os.environ.pop(VARIABLE, None)  # `partition` allows its worker processes more


def run(argv: list[str], folder: Path, out: str = "stdout", err: str = "stderr") -> NoReturn:
    """Run the program in a folder, as its console script does, and end this child process like the script."""
    os.chdir(folder)
    for descriptor, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Two of OpenVINO's CPU plugins in the parent leave an alternate signal stack (a stack_t) that is no longer
    # mapped, so any signal that Python handles would end this process. 2 is SS_DISABLE.
    ctypes.CDLL(None).sigaltstack(struct.pack("PiN", 0, 2, 0), None)
    sys.argv = ["circletool", *argv]
    try:
        main()
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # as the interpreter does
        traceback.print_exc()
        status = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
