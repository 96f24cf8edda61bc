"""Tables of every command in terminals of several widths: each line within the width, and each with a head."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import copy
from textwrap import dedent

import pytest
from circletool_cli.table import COMMANDS

from tests.kit.bundles import task
from tests.kit.presence import need
from tests.kit.program import TRACE
from tests.kit.pseudo_terminal import on_terminal
from tests.kit.support import ROOT, bytes_of, path_of

WIDTHS = (60, 120)
PLAN = "--devices npu,cpu --set op:CONV_2D=npu --default cpu"
MANY = "in.circle in.tflite"
WORDS = {
    # In this order: some read what others wrote. A line for each form of table.
    "embed-origins": ["tico.circle out.circle --origins tico.json"],
    "dump-origins": ["out.circle", "out.circle --format tree", "out.circle in.tflite"],
    "track-origins": ["views.before.circle views.after.circle tracked.circle"],
    "fix-outputs": ["in.circle fixed.circle"],
    "annotate-affinity": [f"in.circle devices.circle {PLAN}"],
    "partition": ["devices.circle", "devices.circle --by partition", f"in.circle {PLAN} --by operator"],
    "export-affinity": ["devices.circle --to part -o model.part"],
    "split": ["devices.circle parts/"],
    "verify-split": ["parts/ --on none"],
    "measure": ["parts/ --on cpu=nothing"],  # its table needs a runtime: tests/render/test_measuring.py
    "extract": ["in.circle part.circle --operators 0"],
    "rename": ["in.circle named.circle --input 0=image"],
    "signature": ["in.circle signed.circle --add detect"],
    "reorder": ["in.circle ordered.circle --inputs 0"],
    "set-shape": ["in.circle shaped.circle --batch 2"],
    "repair": ["in.circle repaired.circle --only OUTPUT_TAP"],
    "replace": ["face.task!face.tflite in.tflite copy.task"],
    "expose": ["in.circle exposed.circle --every CONV_2D"],
    "metadata list": ["out.circle"],
    "metadata get": ["out.circle ONE_op_table -o table.bin"],
    "metadata set": ["out.circle set.circle --name note --text x"],
    "metadata remove": ["out.circle stripped.circle --origins"],
    "metadata describe": ["out.circle described.circle --name x"],
    "metadata labels": ["out.circle labelled.circle --values --labels times.json"],
    "metadata rename": ["out.circle renamed.circle --name ONE_op_table=x"],
    "compact": ["in.circle compact.circle", "in.circle pruned.circle --prune"],
    "inspect": ["in.tflite --operators --tensors", MANY, "in.circle --digest"],
    "check": [MANY, "--explain NOT_USED", "constant.circle --statistics", f"{MANY} constant.circle --statistics"],
    "fit": ["in.tflite --on xnnpack,ethos-u55,onert-cpu", f"{MANY} --on xnnpack,ethos-u55"],
    "requires": ["blocks.tflite", "blocks.tflite --runtime litert-1.4"],
    "cost": [MANY, "in.tflite --by operator", "out.circle --by module"],
    "diff": ["in.circle devices.circle", "in.circle devices.circle --attest", "in.tflite in.circle --full"],
    "trace-stats": ["trace.html", "trace.html --by bucket", "trace.html --by function"],
    "trace-compare": ["trace.html trace.html", "times.json times.json --operators"],
    "trace-export": ["trace.html out.json --to chrome"],
    "profile": ["in.tflite --on nothing"],
    "attribute": ["times.json --model if_cond.circle"],
    "compare": ["in.tflite --on litert:reference,litert:builtin"],
    "reduce": ["in.circle small.circle --while-refused litert"],
    "report": ["out.circle -o report.html"],
}
TABLES = {
    "dump-origins", "metadata", "partition", "inspect", "check", "fit", "diff", "trace-stats", "trace-compare",
    "attribute", "track-origins", "requires", "cost", "compare",
}  # fmt: skip
SHOWS = """
    import json, os, sys
    import circletools as ct
    from circletool_cli import main
    fitted, tables = ct.render.fitted, []
    def noted(line, width):
        shown = fitted(line, width)
        if hasattr(line, "cells"):
            tables[-1].append(shown)
        return shown
    ct.render.fitted = noted
    os.chdir(sys.argv[2])
    for words in json.loads(sys.argv[1]):
        tables.append([])
        sys.argv = ["circletool", *words.split()]
        print(flush=True)
        try:
            main._run()
        except SystemExit:
            pass
    with open("tables.json", "w") as file:
        json.dump(tables, file)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with what the commands read."""
    found = {
        "in.circle": path_of("circle/inception"),
        "constant.circle": path_of("circle/constant_output"),
        "in.tflite": path_of("tflite/cnn_int8"),
        "if_cond.circle": path_of("circle/if_cond"),
        "blocks.tflite": path_of("tflite/blockwise_int4"),
        "trace.html": TRACE,
        "times.json": ROOT / "testdata/trace/onert_if_cond.chrome.json",
        "tico.circle": ROOT / "testdata/origins/tico.circle",
        "tico.json": ROOT / "testdata/origins/tico.json",
        "views.before.circle": ROOT / "testdata/tracking/views.optimised.before.circle",
        "views.after.circle": ROOT / "testdata/tracking/views.optimised.after.circle",
    }
    for name, path in found.items():
        copy(path, tmp_path / name)
    (tmp_path / "face.task").write_bytes(task([("face.tflite", bytes_of("tflite/scalar"))]))
    return tmp_path


def test_every_command_is_shown() -> None:
    assert WORDS.keys() == {row.name for row in COMMANDS}


def check_tables(names: set[str], width: int, folder: Path) -> None:
    """Fail unless those of some commands that have tables show them, and within the width of the terminal."""
    runs = [f"{name} {words}" for name, several in WORDS.items() if name in names for words in several]
    seen = on_terminal([sys.executable, "-c", dedent(SHOWS), json.dumps(runs), folder], width)
    assert seen.status == 0
    tables = dict(zip(runs, json.loads((folder / "tables.json").read_text(encoding="utf-8")), strict=True))
    assert {words.split()[0] for words, lines in tables.items() if lines} == TABLES & {
        name.split()[0] for name in names
    }
    on_screen = set(seen.lines)
    for words, lines in tables.items():
        assert [line for line in lines if len(line) > width] == [], words
        assert {line.rstrip() for line in lines} <= on_screen, words


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_of_every_command_keep_to_the_terminal(width: int, folder: Path) -> None:
    check_tables(WORDS.keys() - {"compare"}, width, folder)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_of_a_comparison_keeps_to_the_terminal(width: int, folder: Path) -> None:
    need("ai_edge_litert")
    check_tables({"compare"}, width, folder)
