"""The command dump-origins."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.kit.cli_origins import SEVERAL
from tests.kit.origin_support import OP, embedded, rebuilt
from tests.kit.program import ENVIRONMENT, LOOP, MLP, TOOL, put, run
from tests.kit.support import edited


def test_dump_text(shown: Path) -> None:
    ran = run("dump-origins", shown)
    message = "subgraphs[0].operators[1]: the table omits 1 of 3 operators; this is harmless outside the ONE compiler"
    assert (ran.status, ran.err) == (0, f"note: {shown}: {message}\n")
    assert ran.out.decode() == (
        "operator -> sources\n"
        "  operator  code             output                                    sources\n"
        "  0         FULLY_CONNECTED  __main__.Mlp::relu                        <- 1 node1\n"
        "  1         FULLY_CONNECTED  torch.nn.modules.linear.Linear::linear_1  <- (none)\n"
        "  2         SOFTMAX          __main__.Mlp::_softmax                    <- 1 node1, 2 a,b\n"
        "\n"
        "source -> operators\n"
        "  1 node1  -> 0 2\n"
        "  2 a,b  -> 2\n"
        "  9 gone  -> (none)\n"
    )


def test_dump_csv(shown: Path) -> None:
    ran = run("dump-origins", shown, "--format", "csv")
    assert ran.out.decode() == (
        "subgraph,operator_index,code,output,source_id,source_name,path,class,file,line,call,caller\n"
        "0,0,FULLY_CONNECTED,__main__.Mlp::relu,1,node1,,,,,,\n"
        "0,1,FULLY_CONNECTED,torch.nn.modules.linear.Linear::linear_1,,,,,,,,\n"
        "0,2,SOFTMAX,__main__.Mlp::_softmax,1,node1,,,,,,\n"
        '0,2,SOFTMAX,__main__.Mlp::_softmax,2,"a,b",,,,,,\n'
        ",,,,9,gone,,,,,,\n"
    )


def test_dump_json(shown: Path) -> None:
    ran = run("dump-origins", shown, "--json")
    document = json.loads(ran.out)
    assert {key: document[key] for key in ("schema_version", "format", "freshness", "scope")} == {
        "schema_version": 1,
        "format": "circle",
        "freshness": {"state": "fresh"},
        "scope": "main",
    }
    first, third = {"subgraph": 0, "operator_index": 0}, {"subgraph": 0, "operator_index": 2}
    assert document["sources"] == [
        {"id": 1, "name": "node1", "operators": [first, third]},
        {"id": 2, "name": "a,b", "operators": [third]},
        {"id": 9, "name": "gone", "operators": []},
    ]
    assert [operator["sources"] for operator in document["operators"]] == [[1], [], [1, 2]]
    assert document["operators"][2] == third | {
        "code": "SOFTMAX", "output": "__main__.Mlp::_softmax", "sources": [1, 2]
    }  # fmt: skip
    assert run("dump-origins", shown, "--format", "json").out == ran.out


@pytest.mark.parametrize(
    ("options", "operators", "sources"),
    [
        (["--operators", "0"], [0], [1]),
        (["--operators", "1-2"], [1, 2], [1, 2]),
        (["--operators", "2, 0"], [0, 2], [1, 2]),
        (["--operators", "7"], [], []),
        (["--source", "^a"], [2], [1, 2]),  # what operator 2 also comes from is shown with it
        (["--source", "node1|gone"], [0, 2], [1, 2, 9]),
        (["--source", "ODE"], [], []),
        (["--source", "(?i)ODE", "--operators", "0"], [0], [1]),
        (["--subgraph", "0"], [0, 1, 2], [1, 2]),
    ],
)
def test_dump_selection(shown: Path, options: list[str], operators: list[int], sources: list[int]) -> None:
    document = json.loads(run("dump-origins", shown, "--json", *options).out)
    assert [operator["operator_index"] for operator in document["operators"]] == operators
    assert [source["id"] for source in document["sources"]] == sources
    everything = json.loads(run("dump-origins", shown, "--json").out)["sources"]
    assert [source for source in everything if source["id"] in sources] == document[
        "sources"
    ] or "--source" in options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--operators", "3-1"], "'3-1' is not an operator index or range (write, for example, 0-10,15)"),
        (["--operators", "1,,2"], "'' is not an operator index or range"),
        (["--operators", "-1"], "'-1' is not an operator index or range"),
        (["--operators", "one"], "'one' is not an operator index or range"),
        (["--source", "(a"], "'(a' is not a valid regular expression: missing )"),
        (["--subgraph", "1"], "subgraph 1 does not exist; the count is 1"),
    ],
)
def test_dump_of_a_bad_selection(shown: Path, options: list[str], message: str) -> None:
    ran = run("dump-origins", shown, *options)
    assert (ran.status, ran.out) == (2, b"")
    assert ran.err.startswith(f"error: {message}")


def test_dump_of_a_wide_range(shown: Path) -> None:
    limit = 'ulimit -v 1500000; exec "$@"'
    limited = ["sh", "-c", limit, "sh", str(TOOL), "dump-origins", str(shown), "--operators", "0-99999999"]
    single = ENVIRONMENT | {"OPENBLAS_NUM_THREADS": "1"}  # its threads reserve memory
    done = subprocess.run(limited, capture_output=True, env=single, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, run("dump-origins", shown, "--operators", "0-2").out)


def test_dump_one_of_several_subgraphs(tmp_path: Path) -> None:
    model = put(tmp_path / "a.circle", embedded(LOOP.read_bytes(), SEVERAL))
    lines = run("dump-origins", model, "--subgraph", "2", "--format", "csv").out.decode().splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [["2", "0"], ["2", "1"], ["2", "1"], ["2", "2"]]
    text = run("dump-origins", model).out.decode()
    assert text.endswith("source -> operators\n  0 a  -> 0/0 2/1\n  1 b  -> 2/0 2/1\n  7 gone  -> (none)\n")


def test_dump_of_stale_origins(tmp_path: Path) -> None:
    stale = rebuilt(embedded(MLP.read_bytes()), lambda model: model.subgraphs[0].operators.pop(1))
    model = put(tmp_path / "a.circle", stale)
    ran = run("dump-origins", model, "--json")
    what = "subgraphs[0].operators[1]: the origins are stale: the number of operators was 3 and is now 2"
    remedy = "embed new origins, or track those of the earlier model"
    assert (ran.status, ran.err) == (1, f"warning: {model}: {what}; {remedy}\n")
    assert json.loads(ran.out)["freshness"] == {
        "state": "stale", "subgraph": 0, "operator_index": 1, "reason": "the number of operators was 3 and is now 2"
    }  # fmt: skip


def test_dump_reports_unknown_values(tmp_path: Path) -> None:
    model = put(tmp_path / "a.circle", embedded(LOOP.read_bytes(), stamp=False))
    ran = run("dump-origins", model)
    assert ran.status == 0
    assert ran.err.splitlines() == [
        f"note: {model}: the origins have no stamp that would reveal stale ones; `embed-origins --replace` adds one",
        f"note: {model}: one op table applies to all subgraphs, as in the ONE compiler",
    ]


def test_dump_of_no_origins_is_a_document_all_the_same() -> None:
    ran = run("dump-origins", MLP, "--json")
    document = json.loads(ran.out)
    assert (ran.status, document["freshness"], document["sources"]) == (1, {"state": "absent"}, [])
    assert [operator["sources"] for operator in document["operators"]] == [[], [], []]


def test_dump_of_a_malformed_table(tmp_path: Path) -> None:
    broken = edited(embedded(MLP.read_bytes()), lambda edit: edit.set_metadata(OP, b"\1\0\0\0\5\0"))
    ran = run("dump-origins", put(tmp_path / "a.circle", broken))
    assert (ran.status, ran.out) == (3, b"")
    place = f"{tmp_path / 'a.circle'}: {OP}"
    assert ran.err == f"error: {place}: an entry is truncated: 8 bytes needed at byte 4\n"


def test_a_tree(shown: Path) -> None:
    ran = run("dump-origins", shown, "--format", "tree", "--depth", "1")
    assert (ran.status, ran.out.decode().splitlines()[1].split()) == (0, ["node1", "2", "operators"])
    refused = run("dump-origins", shown, "--depth", "1")
    assert (refused.status, refused.err) == (2, "error: --depth requires --format tree\n")
