"""exec_time.json, in onert: it writes one with our keys, and chooses backends by ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command_support import run
from tests.kit.presence import need
from tests.kit.support import path_of, with_root

MODELS = ("mlp", "cnn", "diamond", "quantized_linear", "transformer_block")
NEVER = 2**31 - 1
SCHEDULER = {"BACKENDS": "cpu;ruy", "EXECUTOR": "Dataflow", "USE_SCHEDULER": "1", "TRACING_MODE": "1"}


def run_onert_in(folder: Path, model: Path, **environment: str) -> None:
    """Run a model once; onert reads and writes its files in the folder."""
    need("onert")
    program = (
        "import os, sys; from tests.kit.oracles.nnfw import Session, fix_open_shapes;"
        "from tests.kit.oracles.onert import bind; s = Session();"
        "s('load_model_from_file', os.fsencode(sys.argv[1])); fix_open_shapes(s); s('prepare'); bind(s, 0);"
        "s('run'); s('close_session')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(model)],
        cwd=folder,
        env=os.environ | SCHEDULER | environment | {"PYTHONPATH": with_root()},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]


def exported(model: Path, *arguments: str | Path) -> Any:
    """Return the document for onert."""
    ran = run("export-affinity", model, "--to", "onert-exec-time", *arguments)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def keys(document: Any) -> set[tuple[str, str, str, int]]:
    """Return backend, operation, whether it is quantized, and bytes, of all entries."""
    return {
        (backend, name, quantized, size)
        for backend, names in document.items()
        for name, kinds in names.items()
        for quantized, rows in kinds.items()
        for size, _ in rows
    }


@pytest.mark.parametrize("name", MODELS)
def test_onert_writes_the_keys_that_we_write(name: str, tmp_path: Path) -> None:
    model = path_of(f"circle/{name}")
    run_onert_in(tmp_path, model, PROFILING_MODE="1")
    theirs = json.loads((tmp_path / "exec_time.json").read_text())
    assert set(theirs) == {"cpu"}
    assert keys(exported(model, "--trace", f"cpu={tmp_path / 'trace.chrome.json'}")) == keys(theirs)


@pytest.mark.parametrize("quick", ["cpu", "ruy"])
def test_onert_chooses_by_what_we_write(quick: str, tmp_path: Path) -> None:
    model = path_of("circle/mlp")
    run_onert_in(tmp_path, model, PROFILING_MODE="1")  # for the names
    costs = tmp_path / "costs.json"
    gemm = {name: 100000 if name != quick else 10 for name in ("cpu", "ruy")}
    document = {
        "devices": [
            {
                "name": name,
                "operators": [
                    {"select": "op:FULLY_CONNECTED", "time_us": gemm[name]},
                    {"select": "op:SOFTMAX", "time_us": 5 if name == "cpu" else None},
                ],
            }
            for name in ("cpu", "ruy")
        ],
        "transfers": [{"from": "*", "to": "*", "overhead_us": 7}],
    }
    costs.write_text(json.dumps(document))
    names = ("--trace", f"cpu={tmp_path / 'trace.chrome.json'}")
    written = exported(model, *names, "--costs", costs)
    assert written["ruy"]["FullyConnected"]["0"] == [[672, gemm["ruy"]], [2368, gemm["ruy"]]]
    assert written["ruy"]["Softmax"]["0"] == [[32, NEVER]]
    assert {time for rows in written["cpu"]["ruy"].values() for _, time in rows} == {7}
    # What the trace measured counts before the document.
    written["cpu"]["FullyConnected"]["0"] = [[size, gemm["cpu"]] for size, _ in written["cpu"]["FullyConnected"]["0"]]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "exec_time.json").write_text(json.dumps(written))
    run_onert_in(folder, model)
    events = json.loads((folder / "trace.chrome.json").read_text())["traceEvents"]
    ran = {event["name"]: event["tid"].split(", ")[2] for event in events if event.get("name", "").startswith("@")}
    assert {name.split()[1]: backend for name, backend in ran.items() if "Permute" not in name} == {
        "FullyConnected": quick,
        "Softmax": "cpu",
    }


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--to", "onert-exec-time"], 2, "go together"),
        (["--to", "dot", "--costs", "COSTS"], 2, "go together"),
        (["--to", "onert-exec-time", "--costs", "COSTS"], 4, "no trace of onert has the operator"),
    ],
)
def test_what_cannot_be_exported(arguments: list[str], status: int, words: str, tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text('{"devices": [{"name": "cpu", "operators": [{"select": "op:*", "time_us": 1}]}]}')
    ran = run("export-affinity", path_of("circle/mlp"), *(str(costs) if w == "COSTS" else w for w in arguments))
    assert (ran.returncode, words in ran.stderr) == (status, True), ran.stderr


@pytest.mark.parametrize("name", ["while_loop", "if_cond"])
def test_control_flow_is_refused_since_onert_fails(name: str, tmp_path: Path) -> None:
    model = path_of(f"circle/{name}")
    with pytest.raises(AssertionError, match=r"NYI for operation '(While|If)'"):
        run_onert_in(tmp_path, model, PROFILING_MODE="1")
    costs = tmp_path / "costs.json"
    costs.write_text('{"devices": [{"name": "cpu", "operators": [{"select": "op:*", "time_us": 1}]}]}')
    ran = run("export-affinity", model, "--to", "onert-exec-time", "--costs", costs)
    assert (ran.returncode, "cannot run it" in ran.stderr) == (4, True), ran.stderr
