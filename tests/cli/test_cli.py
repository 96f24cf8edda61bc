"""The command line as a user has it: the installed program, its exit statuses, files and words."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import pytest

from circletools.edit.compact import compact_parts
from circletools.inspection import inspect_model
from circletools.model.model import open_model
from circletools.origin.names import NameSource
from circletools.origin.read import Origins
from circletools.render.inspection import inspection_json
from circletools.storage.files import view
from tests.kit.affinity_support import with_affinity
from tests.kit.oracles import run_litert, run_onert, same_behaviour
from tests.kit.origin_support import EXACT, OP, SOURCE, STAMP, embedded, origins, rebuilt, value_of
from tests.kit.support import ROOT, bytes_of, edited, noted, packed, path_of, read, unpacked

TOOL = Path(sys.executable).with_name("circletool")
COMMANDS = (
    *("embed-origins", "dump-origins", "extract-origins", "track-origins"),
    "fix-outputs",
    *("annotate-affinity", "dump-affinity", "partition", "export-affinity"),
    *("split", "verify-split"),
    *("strip-metadata", "compact", "inspect", "verify", "check"),
    "diff",
    *("trace-stats", "trace-compare", "trace-export"),
    "attribute",
    "report",
)
TRACE = ROOT / "testdata" / "trace" / "benchmark.html"
MLP, LOOP = path_of("circle/mlp"), path_of("circle/while_loop")
# One operator of MLP, as onert writes it.
OPERATOR_TRACE = json.dumps(
    [{"name": "@2 Softmax", "tid": "$0 sess, $0 subg, cpu", "ph": phase, "ts": "1"} for phase in ("B", "E")]
)
_ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}


class Ran(NamedTuple):
    """How a run of the program ended. `err` has what is no UTF-8 as surrogate escapes."""

    status: int
    out: bytes
    err: str


def run(
    *args: str | Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> Ran:
    """Run the program; no run may end in a traceback."""
    done = subprocess.run(
        [TOOL, *args],
        input=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=_ENVIRONMENT | (env or {}),
        check=False,
        timeout=60,
    )
    err = (done.stderr or b"").decode("utf-8", "surrogateescape")
    assert "Traceback" not in err, err
    return Ran(done.returncode, done.stdout or b"", err)


def on_terminal(
    stream: Literal["stdout", "stderr"], *args: str | Path, env: dict[str, str] | None = None
) -> tuple[Ran, str]:
    """Run the program with standard output or standard error on a terminal; return also what that shows."""
    ours, theirs = pty.openpty()
    try:
        ran = run(*args, env=env, stdout=theirs) if stream == "stdout" else run(*args, env=env, stderr=theirs)
    finally:
        os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(ours)
    return ran, shown.decode(errors="replace").replace("\r\n", "\n")


def put(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
    return path


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    """Return a model that has origins already."""
    return put(tmp_path / "has.circle", embedded(MLP.read_bytes()))


# --- exit statuses ------------------------------------------------------------------------------------------


def test_status_0_done(tmp_path: Path) -> None:
    ran = run("embed-origins", MLP, tmp_path / "out.circle")
    assert (ran.status, ran.out) == (0, b"")
    assert re.findall(r"^metadata (\S+): \d+ bytes$", ran.err, re.M) == [SOURCE, OP, STAMP]
    assert (tmp_path / "out.circle").read_bytes() == embedded(MLP.read_bytes())


def test_status_1_findings() -> None:
    ran = run("dump-origins", MLP)
    assert (ran.status, ran.out) == (1, b"")
    assert ran.err == f"warning: {MLP}: the model has no origins; run `circletool embed-origins`\n"


def test_status_2_usage() -> None:
    ran = run("embed-origins", MLP)
    assert ran == Ran(2, b"", "error: no output file (name one, or use --in-place)\n")


def test_status_3_invalid_input(tmp_path: Path) -> None:
    ran = run("inspect", put(tmp_path / "x.circle", b"no model at all"))
    assert (ran.status, ran.out) == (3, b"")
    assert ran.err.startswith(f"error: {tmp_path / 'x.circle'}: neither a TFLite nor a Circle model")
    missing = run("inspect", tmp_path / "missing.circle")
    assert (missing.status, missing.out) == (3, b"")
    assert missing.err == f"error: {tmp_path / 'missing.circle'}: cannot read it: No such file or directory\n"


def test_status_4_impossible_edit(twice: Path, tmp_path: Path) -> None:
    ran = run("embed-origins", twice, tmp_path / "out.circle")
    assert (ran.status, ran.out) == (4, b"")
    assert ran.err.startswith(f"error: {twice}: the model has origins already ({SOURCE}, {OP}) (--replace ")


@pytest.mark.parametrize("args", [["no-such-command"], ["inspect"], ["inspect", "--no-such-option", "x"], ["verify"]])
def test_a_wrong_command_line(args: list[str]) -> None:
    ran = run(*args)
    assert (ran.status, ran.out) == (2, b"")
    assert ran.err.startswith("Usage: circletool")


# --- reading and writing ------------------------------------------------------------------------------------


def test_in_place(tmp_path: Path) -> None:
    model = put(tmp_path / "a.circle", MLP.read_bytes())
    model.chmod(0o640)
    assert run("embed-origins", model, "--in-place").status == 0
    assert model.read_bytes() == embedded(MLP.read_bytes())
    assert model.stat().st_mode & 0o777 == 0o640
    assert run("strip-metadata", model, "--origins", "--in-place").status == 0
    assert model.read_bytes() == MLP.read_bytes()
    assert files_in(tmp_path) == {"a.circle"}


@pytest.mark.parametrize("command", [["embed-origins"], ["strip-metadata", "--name", "note"], ["compact"]])
def test_one_file_as_input_and_output(command: list[str], tmp_path: Path) -> None:
    data = noted(MLP.read_bytes())
    model = put(tmp_path / "a.circle", data)
    (tmp_path / "link.circle").symlink_to(model)
    (tmp_path / "hard.circle").hardlink_to(model)
    for name in ("link.circle", "hard.circle") if command == ["compact"] else ("a.circle",):
        ran = run(*command, model, tmp_path / name)
        assert (ran.status, model.read_bytes()) == (2, data)
        assert ran.err == f"error: {tmp_path / name}: input and output are the same file (use --in-place)\n"
    assert run(*command, model, model, "--in-place").status == 0
    assert model.read_bytes() != data


def test_standard_input_and_output() -> None:
    data = MLP.read_bytes()
    ran = run("embed-origins", "-", "-", stdin=data)
    assert (ran.status, ran.out) == (0, embedded(data))
    assert run("strip-metadata", "-", "-", "--origins", stdin=ran.out).out == data
    assert run("compact", "-", "-", stdin=ran.out).out == compacted(ran.out)
    assert run("verify", "-", stdin=data).out == b"-: ok\n"
    assert json.loads(run("inspect", "-", "--json", stdin=data).out)["file_bytes"] == len(data)
    assert run("dump-origins", "-", "--format", "csv", stdin=ran.out).out.count(b"\n") == 4
    assert run("inspect", "-").err.startswith("error: <standard input>: neither")


@pytest.mark.parametrize("command", [["embed-origins"], ["strip-metadata", "--origins"], ["compact"]])
def test_no_binary_on_a_terminal(command: list[str]) -> None:
    ran, shown = on_terminal("stdout", *command, MLP, "-")
    assert (ran.status, shown) == (2, "")
    assert ran.err.startswith("error: the output is binary and standard output is a terminal")


def test_a_failing_edit_leaves_no_file(twice: Path, tmp_path: Path) -> None:
    old = put(tmp_path / "old.circle", "precious")
    broken = put(tmp_path / "broken.circle", MLP.read_bytes()[:300])
    before = files_in(tmp_path)
    for source, status in ((twice, 4), (broken, 3)):
        for target in (old, tmp_path / "new.circle"):
            assert run("embed-origins", source, target).status == status
    assert run("strip-metadata", twice, old, "--name", SOURCE, "--name", "typo").status == 2
    assert run("compact", broken, old).status == 3
    assert run("embed-origins", twice, "--in-place").status == 4
    assert twice.read_bytes() == embedded(MLP.read_bytes())
    assert (old.read_bytes(), files_in(tmp_path)) == (b"precious", before)


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "out.circle"
    ran = run("embed-origins", MLP, nowhere)
    assert ran == Ran(4, b"", f"error: {nowhere}: cannot write it: No such file or directory\n")
    ran = run("compact", MLP, tmp_path)
    assert ran == Ran(2, b"", f"error: {tmp_path}: the output is a directory; name a file\n")
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize("args", [["inspect", MLP], ["compact", MLP, "-"]])
def test_a_full_disk_behind_standard_output(args: list[str | Path]) -> None:
    with open("/dev/full", "wb") as full:
        ran = run(*args, stdout=full)
    assert ran.status != 0
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize("args", [["inspect", MLP], ["compact", MLP, "-"], ["inspect", "missing.circle"]])
def test_a_closed_standard_output(args: list[str | Path]) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", str(TOOL), *map(str, args)]
    done = subprocess.run(closed, capture_output=True, check=False)
    assert done.returncode in (3, 4)
    assert done.stderr.startswith(b"error: ")


def test_a_pipe_that_nobody_reads() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = run("inspect", MLP, stdout=writing)
    finally:
        os.close(writing)
    assert ran == Ran(-13, b"", "")


def test_nothing_to_change(tmp_path: Path) -> None:
    ran = run("strip-metadata", MLP, tmp_path / "out.circle", "--origins")
    assert (ran.status, ran.err) == (0, "nothing to change\n")
    assert (tmp_path / "out.circle").read_bytes() == MLP.read_bytes()


def test_names_of_files_are_bytes(tmp_path: Path) -> None:
    name = "\udcff.circle"
    put(tmp_path / name, MLP.read_bytes())
    assert run("verify", name, cwd=tmp_path).out == b"\xff.circle: ok\n"
    assert run("verify", "\udcfe", cwd=tmp_path).err.startswith("error: \udcfe: cannot read it")


# --- the terminal -------------------------------------------------------------------------------------------


def test_colour_only_on_a_terminal() -> None:
    _, shown = on_terminal("stderr", "dump-origins", MLP)
    assert shown.startswith("\033[33mwarning:\033[0m ")
    _, shown = on_terminal("stderr", "embed-origins", MLP)
    assert shown.startswith("\033[31merror:\033[0m ")
    assert "\033" not in run("embed-origins", MLP).err


def test_no_color() -> None:
    _, shown = on_terminal("stderr", "embed-origins", MLP, env={"NO_COLOR": "1"})
    assert shown.startswith("error: no output file")
    _, shown = on_terminal("stderr", "embed-origins", MLP, env={"NO_COLOR": ""})  # empty counts as not set
    assert shown.startswith("\033[31m")


def test_results_have_no_colour_on_a_terminal() -> None:
    ran, shown = on_terminal("stdout", "inspect", MLP)
    assert ran.status == 0
    assert shown.encode() == run("inspect", MLP).out


# --- dump-origins -------------------------------------------------------------------------------------------

SHOWN = origins({1: "node1", 2: "a,b", 9: "gone"}, {0: {1}, 2: {1, 2}})


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """Return a model with the origins `SHOWN`: operator 1 has none, and source 9 no operator."""
    return put(tmp_path / "shown.circle", embedded(MLP.read_bytes(), SHOWN))


def test_dump_text(shown: Path) -> None:
    ran = run("dump-origins", shown)
    message = "subgraphs[0].operators[1]: 1 of 3 operators have no origin; harmless outside of the ONE compiler"
    assert (ran.status, ran.err) == (0, f"note: {shown}: {message}\n")
    assert ran.out.decode() == (
        "operator -> sources\n"
        "  0  FULLY_CONNECTED  __main__.Mlp::relu                        <- 1 node1\n"
        "  1  FULLY_CONNECTED  torch.nn.modules.linear.Linear::linear_1  <- (none)\n"
        "  2  SOFTMAX          __main__.Mlp::_softmax                    <- 1 node1, 2 a,b\n"
        "\n"
        "source -> operators\n"
        "  1 node1  -> 0 2\n"
        "  2 a,b  -> 2\n"
        "  9 gone  -> (none)\n"
    )


def test_dump_csv(shown: Path) -> None:
    ran = run("dump-origins", shown, "--format", "csv")
    assert ran.out.decode() == (
        "subgraph,operator_index,code,output,source_id,source_name\n"
        "0,0,FULLY_CONNECTED,__main__.Mlp::relu,1,node1\n"
        "0,1,FULLY_CONNECTED,torch.nn.modules.linear.Linear::linear_1,,\n"
        "0,2,SOFTMAX,__main__.Mlp::_softmax,1,node1\n"
        '0,2,SOFTMAX,__main__.Mlp::_softmax,2,"a,b"\n'
        ",,,,9,gone\n"
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
        (["--operator", "0"], [0], [1]),
        (["--operator", "1-2"], [1, 2], [1, 2]),
        (["--operator", "2, 0"], [0, 2], [1, 2]),
        (["--operator", "7"], [], []),
        (["--source", "^a"], [2], [1, 2]),  # what operator 2 also comes from is shown with it
        (["--source", "node1|gone"], [0, 2], [1, 2, 9]),
        (["--source", "ODE"], [], []),
        (["--source", "(?i)ODE", "--operator", "0"], [0], [1]),
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
        (["--operator", "3-1"], "'3-1' is not an operator index or range (write them as in 0-10,15)"),
        (["--operator", "1,,2"], "'' is not an operator index or range"),
        (["--operator", "-1"], "'-1' is not an operator index or range"),
        (["--operator", "one"], "'one' is not an operator index or range"),
        (["--source", "(a"], "'(a' is not a regular expression: missing )"),
        (["--subgraph", "1"], "subgraph 1 does not exist; there are 1"),
    ],
)
def test_dump_of_a_bad_selection(shown: Path, options: list[str], message: str) -> None:
    ran = run("dump-origins", shown, *options)
    assert (ran.status, ran.out) == (2, b"")
    assert ran.err.startswith(f"error: {message}")


def test_dump_of_a_wide_range(shown: Path) -> None:
    limit = 'ulimit -v 1500000; exec "$@"'
    limited = ["sh", "-c", limit, "sh", str(TOOL), "dump-origins", str(shown), "--operator", "0-99999999"]
    single = _ENVIRONMENT | {"OPENBLAS_NUM_THREADS": "1"}  # its threads reserve memory
    done = subprocess.run(limited, capture_output=True, env=single, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, run("dump-origins", shown, "--operator", "0-2").out)


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
    what = "subgraphs[0].operators[1]: the origins are stale: 3 operators then, 2 now"
    remedy = "embed them again, or track them from the model before"
    assert (ran.status, ran.err) == (1, f"warning: {model}: {what}; {remedy}\n")
    assert json.loads(ran.out)["freshness"] == {
        "state": "stale", "subgraph": 0, "operator_index": 1, "reason": "3 operators then, 2 now"
    }  # fmt: skip


def test_dump_says_what_it_cannot_know(tmp_path: Path) -> None:
    model = put(tmp_path / "a.circle", embedded(LOOP.read_bytes(), stamp=False))
    ran = run("dump-origins", model)
    assert ran.status == 0
    assert ran.err.splitlines() == [
        f"note: {model}: the origins have no stamp to recognise stale ones by; `embed-origins --replace` adds it",
        f"note: {model}: one op table stands for all subgraphs, as the ONE compiler reads it",
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
    assert ran.err == f"error: {place}: an entry is cut off: 8 bytes needed at byte 4\n"


# --- embed-origins ------------------------------------------------------------------------------------------

SEVERAL = origins({0: "a", 1: "b", 7: "gone"}, {0: {0}}, {}, {0: {1}, 1: {0, 1}})
AWKWARD = ("a,b", 'say "hi"', "two\nlines\n", "\udcff\udcc3 raw", "", " spaces ", "é中🙂", "0", "#", "'", "a\tb")
NAMES = origins(dict(enumerate(AWKWARD)), {0: {0, 1, 2, 3}, 1: {4, 5}, 2: {6}})
BREAKS = origins({0: "a\rb", 1: "c\r\nd", 2: "e\u2028f", 3: "g\x85h\x0b"}, {0: {0, 1}, 1: {2, 3}})
LONG = origins({0: "x" * 200_000}, {0: {0}})


def round_trip(model: Path, wanted: Origins, ending: str, folder: Path) -> None:
    """Dump the origins of a model and embed what came out in the bare model: the same file again."""
    data = embedded(model.read_bytes(), wanted)
    dumped = run("dump-origins", "-", "--format", ending, stdin=data).out
    ran = run("embed-origins", model, "-", "--origins", put(folder / f"dump.{ending}", dumped))
    assert (ran.status, ran.out) == (0, data)


@pytest.mark.parametrize("ending", ["json", "csv"])
@pytest.mark.parametrize(
    ("model", "wanted"), [(MLP, SHOWN), (MLP, NAMES), (LOOP, SEVERAL)], ids=["plain", "awkward names", "several"]
)
def test_what_was_dumped_can_be_embedded(model: Path, wanted: Origins, ending: str, tmp_path: Path) -> None:
    round_trip(model, wanted, ending, tmp_path)


@pytest.mark.parametrize("ending", ["json", "csv"])
@pytest.mark.parametrize("wanted", [BREAKS, LONG], ids=["line breaks", "long"])
def test_names_that_are_hard_to_write(wanted: Origins, ending: str, tmp_path: Path) -> None:
    round_trip(MLP, wanted, ending, tmp_path)


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_a_csv_that_a_spreadsheet_wrote(line_break: str, tmp_path: Path) -> None:
    """A byte order mark, any line break, other columns, another order, and no subgraph."""
    lines = ("\ufeffsource_name,note,source_id,operator_index", "node1,x,1,0", "b,,3,", "")
    table = put(tmp_path / "a.CSV", line_break.join(lines))
    ran = run("embed-origins", MLP, "-", "--origins", table)
    assert ran.out == embedded(MLP.read_bytes(), origins({1: "node1", 3: "b"}, {0: {1}}))


def test_a_json_that_a_person_wrote(tmp_path: Path) -> None:
    document = '{"sources": [{"id": 1, "name": "node1"}], "operators": [{"operator_index": 0, "sources": [1]}]}'
    ran = run("embed-origins", MLP, "-", "--origins", put(tmp_path / "a.txt", document))
    assert ran.out == embedded(MLP.read_bytes(), origins({1: "node1"}, {0: {1}}))


SOURCES = '{"sources": [{"id": 0, "name": "a"}], "operators": [{"operator_index": 0, "sources": [0]}'
HEADER = "operator_index,source_id,source_name\n"
MALFORMED = [
    ("json", "", ":1: not JSON"),
    ("json", '{"sources": [],\n\n"operators": [,]}', ":3: not JSON"),
    ("json", "[" * 100_000, ":1: not JSON"),
    ("json", "[]", ": `sources` must be a list of objects"),
    ("json", '{"sources": []}', ": `operators` must be a list of objects"),
    ("json", '{"sources": [{"id": 0}], "operators": []}', ": sources[0]: `name` must be a string"),
    ("json", '{"sources": [{"name": "a"}], "operators": []}', ": sources[0]: `id` is missing"),
    ("json", SOURCES.replace("0,", "4294967296,", 1) + "]}", ": sources[0]: `id` must be a whole number below 2^32"),
    ("json", SOURCES.replace("0,", "true,", 1) + "]}", ": sources[0]: `id` must be a whole number"),
    ("json", SOURCES + ', {"sources": [0]}]}', ": operators[1]: `operator_index` is missing"),
    ("json", SOURCES + ', {"operator_index": 1, "sources": [0, 5]}]}', ": operators[1]: source 5 is not listed"),
    ("json", SOURCES + ', {"operator_index": 1, "sources": 0}]}', ": operators[1]: `sources` must be a list"),
    ("json", SOURCES.replace("}]", '}, {"id": 0, "name": "a"}]', 1) + "]}", ": sources[1]: source 0 is listed twice"),
    ("csv", "", ":1: no column operator_index, source_id, source_name"),
    ("csv", "x" * 200_000 + "\n", ":1: no column operator_index"),
    ("csv", "source_id,source_name\n", ":1: no column operator_index"),
    ("csv", HEADER + "0,0,a\n1,x,b\n", ":3: source_id must be a whole number"),
    ("csv", HEADER + "-1,0,a\n", ":2: operator_index must be a whole number"),
    ("csv", HEADER + '0,0,"two\nlines"\n1,0,b\n', ":4: source 0 has two names"),
]


@pytest.mark.parametrize(("ending", "content", "message"), MALFORMED)
def test_malformed_origins(ending: str, content: str, message: str, tmp_path: Path) -> None:
    document = put(tmp_path / f"a.{ending}", content)
    ran = run("embed-origins", MLP, tmp_path / "out.circle", "--origins", document)
    assert (ran.status, files_in(tmp_path)) == (3, {document.name})
    assert ran.err.startswith(f"error: {document}{message}")


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("json", SOURCES.replace('"a"', '"\\ud800"') + "]}"),
        ("json", SOURCES.replace('"a"', '"\\u0000"') + "]}"),
        ("csv", HEADER + "0,0,a\0b\n"),
    ],
    ids=["lone surrogate", "NUL in JSON", "NUL in CSV"],
)
def test_names_that_no_table_can_hold(ending: str, content: str, tmp_path: Path) -> None:
    document = put(tmp_path / f"a.{ending}", content)
    ran = run("embed-origins", MLP, tmp_path / "out.circle", "--origins", document)
    assert (ran.status, ran.err.startswith(f"error: {document}:")) == (3, True)


def test_origins_of_an_operator_that_does_not_exist(tmp_path: Path) -> None:
    document = put(tmp_path / "a.csv", HEADER + "3,0,a\n")
    ran = run("embed-origins", MLP, tmp_path / "out.circle", "--origins", document)
    place = f"{document}: subgraphs[0].operators[3]"
    assert ran == Ran(2, b"", f"error: {place}: the operator does not exist; there are 3\n")
    missing = run("embed-origins", MLP, "-", "--origins", tmp_path / "missing.json")
    assert missing.status == 3
    assert missing.err == f"error: {tmp_path / 'missing.json'}: cannot read it: No such file or directory\n"


def test_names_and_stamp() -> None:
    debug = path_of("tflite/debug_metadata")
    for names in NameSource:
        ran = run("embed-origins", debug, "-", "--names", names.value, "--no-stamp")
        assert ran.out == embedded(debug.read_bytes(), names=names, stamp=False)
    ran = run("embed-origins", MLP, "-", "--names", "debug-metadata")
    assert (ran.status, ran.out) == (4, b"")


def test_replace(twice: Path) -> None:
    ran = run("embed-origins", twice, "-", "--replace")
    assert (ran.status, ran.out, ran.err) == (0, twice.read_bytes(), "nothing to change\n")
    ran = run("embed-origins", twice, "-", "--replace", "--names", "tensor-prefix", "--no-stamp")
    assert ran.out == embedded(twice.read_bytes(), names=NameSource.TENSOR_PREFIX, stamp=False, replace=True)
    assert ran.err.endswith(f"metadata {STAMP}: removed\n")


# --- extract-origins and strip-metadata ---------------------------------------------------------------------


def test_extract(tmp_path: Path) -> None:
    data = embedded(LOOP.read_bytes(), SEVERAL)
    folder = tmp_path / "some" / "where"
    ran = run("extract-origins", put(tmp_path / "a.circle", data), folder)
    assert (ran.status, ran.out) == (0, b"")
    assert files_in(folder) == {*(f"{name}.bin" for name in (SOURCE, OP, EXACT, STAMP)), "origins.json"}
    for name in (SOURCE, OP, EXACT, STAMP):
        assert (folder / f"{name}.bin").read_bytes() == value_of(data, name)
    assert run("embed-origins", LOOP, "-", "--origins", folder / "origins.json").out == data


def test_extract_of_nothing(tmp_path: Path) -> None:
    ran = run("extract-origins", MLP, tmp_path / "tables")
    assert (ran.status, files_in(tmp_path)) == (1, set())
    assert ran.err.startswith(f"warning: {MLP}: the model has no origins")


def test_extract_to_a_file(twice: Path) -> None:
    ran = run("extract-origins", twice, twice)
    assert ran == Ran(4, b"", f"error: {twice}: cannot make the directory: File exists\n")


def test_strip_names(tmp_path: Path) -> None:
    data = noted(noted(noted(MLP.read_bytes(), "one", b"1"), "two", b"2"), "three", b"3")
    model = put(tmp_path / "a.circle", data)
    ran = run("strip-metadata", model, "-", "--name", "one", "--name", "three")
    assert (ran.status, ran.err) == (0, "metadata one: removed\nmetadata three: removed\n")
    assert [value_of(ran.out, name) for name in ("one", "two", "three")] == [None, b"2", None]
    ran = run("strip-metadata", model, "-", "--name", "four")
    assert (ran.status, ran.out) == (2, b"")
    names = {entry.name.decode() for entry in unpacked(data).metadata}
    assert ran.err == f"error: the model has no metadata entry 'four' (it has: {', '.join(sorted(names))})\n"
    assert run("strip-metadata", model, "-").status == 2


def test_strip_a_name_that_is_given_twice() -> None:
    ran = run("strip-metadata", "-", "-", "--name", "note", "--name", "note", stdin=noted(MLP.read_bytes()))
    assert (ran.status, ran.out) == (0, MLP.read_bytes())


def test_strip_origins(tmp_path: Path) -> None:
    data = noted(embedded(LOOP.read_bytes(), SEVERAL))
    ran = run("strip-metadata", "-", "-", "--origins", stdin=data)
    assert ran.err.splitlines() == [f"metadata {name}: removed" for name in (SOURCE, OP, EXACT, STAMP)]
    assert value_of(ran.out, "note") == b"a value"  # its buffer stays behind those that are now empty
    both = run("strip-metadata", "-", tmp_path / "bare.circle", "--origins", "--name", "note", stdin=data)
    assert (both.status, (tmp_path / "bare.circle").read_bytes()) == (0, LOOP.read_bytes())


# --- inspect and verify -------------------------------------------------------------------------------------


def length(value: Any) -> int:
    return 0 if value is None else len(value)


def test_inspect_agrees_with_the_object_api(own_model: Path) -> None:
    data = own_model.read_bytes()
    with open_model(own_model) as model:
        document = inspection_json(inspect_model(model))
    known = unpacked(data)
    outside = [buffer for buffer in known.buffers if buffer.offset > 1]
    operators = [operator for graph in known.subgraphs for operator in graph.operators or ()]
    custom = [operator for operator in operators if operator.largeCustomOptionsOffset > 1]
    end = max(
        document["flatbuffer_bytes"],
        *(buffer.offset + buffer.size for buffer in outside),
        *(operator.largeCustomOptionsOffset + operator.largeCustomOptionsSize for operator in custom),
        0,
    )
    assert document["file_bytes"] == len(data) == end + document["trailing_bytes"]
    assert document["buffers"] == {
        "count": len(known.buffers), "inside_bytes": sum(length(buffer.data) for buffer in known.buffers)
    }  # fmt: skip
    assert document["external"] == [
        {"kind": kind, "count": len(sizes), "bytes": sum(sizes)}
        for kind, sizes in (
            ("Buffer", [buffer.size for buffer in outside]),
            ("large_custom_options", [operator.largeCustomOptionsSize for operator in custom]),
        )
        if sizes
    ]
    assert sum(document["operators"].values()) == len(operators)
    for shown, graph in zip(document["subgraphs"], known.subgraphs, strict=True):
        assert shown["operator_count"] == sum(shown["operators"].values()) == length(graph.operators)
        assert shown["tensors"] == length(graph.tensors)
        assert [tensor["tensor"] for tensor in shown["outputs"]] == list(graph.outputs)
    assert [signature["key"].encode() for signature in document["signatures"]] == [
        signature.signatureKey for signature in known.signatureDefs or ()
    ]
    assert [(entry["name"].encode(), entry["bytes"]) for entry in document["metadata"]] == [
        (entry.name, length(known.buffers[entry.buffer].data)) for entry in known.metadata or ()
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("tflite/cnn_external", ["external      6 x Buffer, 4200 bytes", "trailing      40 bytes"]),
        ("tflite/custom_options_external", ["external      1 x large_custom_options, 53 bytes"]),
        ("tflite/zip_tail", ["trailing      133 bytes, a ZIP archive: labels.txt"]),
        ("tflite/zip_tail_joined", ["trailing      133 bytes, a ZIP archive: labels.txt"]),
        (
            "tflite/two_signatures",
            ["subgraph 1 scores: 2 operators, 4 tensors", "signature     scores (subgraph 1): x -> scores"],
        ),
        ("circle/dynamic_batch", ["  input  0  tico::x  FLOAT32[-1,16]  (tensor 4)"]),
    ],
)
def test_inspect_text(name: str, lines: list[str]) -> None:
    shown = run("inspect", path_of(name)).out.decode().splitlines()
    assert [line for line in lines if line not in shown] == [], "\n".join(shown)


def test_inspect_json_and_edited_files(twice: Path) -> None:
    ran = run("inspect", twice, "--json")
    document = json.loads(ran.out)
    assert (document["schema_version"], document["format"]) == (1, "circle")
    assert document["prefix_bytes"] == len(twice.read_bytes()) - len(MLP.read_bytes()) > 0
    line = f"edited        {document['prefix_bytes']} bytes in front of the original file"
    assert line in run("inspect", twice).out.decode().splitlines()


def index_out_of_range() -> bytes:
    def change(model: Any) -> None:
        model.subgraphs[0].operators[1].inputs = [99, *model.subgraphs[0].operators[1].inputs[1:]]

    return rebuilt(MLP.read_bytes(), change)


def test_verify(tmp_path: Path) -> None:
    wrong = put(tmp_path / "wrong.circle", index_out_of_range())
    broken = put(tmp_path / "broken.circle", MLP.read_bytes()[:300])
    where = "subgraphs[0].operators[1].inputs[0]"
    text = f"{wrong}: findings\n  error INDEX_OUT_OF_RANGE {where}: tensor 99 does not exist; there are 8\n"
    assert run("verify", MLP) == Ran(0, f"{MLP}: ok\n".encode(), "")
    assert run("verify", wrong, MLP) == Ran(1, f"{text}{MLP}: ok\n".encode(), "")
    ran = run("verify", broken, wrong, MLP)
    assert (ran.status, ran.out.decode()) == (3, f"{broken}: invalid\n{text}{MLP}: ok\n")
    assert re.fullmatch(rf"error: {broken}: .* at byte \d+\n", ran.err)


def test_verify_json(tmp_path: Path) -> None:
    wrong = put(tmp_path / "wrong.circle", index_out_of_range())
    missing = tmp_path / "missing.circle"
    ran = run("verify", MLP, missing, wrong, "--json")
    documents = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.status, ran.err, {document["schema_version"] for document in documents}) == (3, "", {1})
    models = [model for document in documents for model in document["models"]]
    assert [(model["file"], model["verdict"]) for model in models] == [
        (str(MLP), "ok"),
        (str(missing), "invalid"),
        (str(wrong), "findings"),
    ]
    assert models[1]["error"] == f"{missing}: cannot read it: No such file or directory"
    assert models[2]["findings"] == [
        {
            "code": "INDEX_OUT_OF_RANGE",
            "severity": "error",
            "location": "subgraphs[0].operators[1].inputs[0]",
            "message": "tensor 99 does not exist; there are 8",
        }
    ]


def test_an_index_that_leads_nowhere_cannot_be_edited(tmp_path: Path) -> None:
    wrong = put(tmp_path / "wrong.circle", index_out_of_range())
    for command in ("embed-origins", "compact"):
        ran = run(command, wrong, tmp_path / "out.circle")
        assert (ran.status, files_in(tmp_path)) == (4, {"wrong.circle"})
        assert "subgraphs[0].operators[1].inputs[0]: tensor 99 does not exist" in ran.err


# --- compact ------------------------------------------------------------------------------------------------


def compacted(data: bytes) -> bytes:
    """Return what `compact` writes; `test_compact_writes_this` holds the command to it."""
    with open_model(data) as model:
        return b"".join(map(view, compact_parts(model)))


def spacious(data: bytes) -> bytes:
    """Return a model with dead bytes: two edits in front of it, with values that are gone again."""
    return noted(
        edited(noted(data, "long", bytes(500)), lambda edit: edit.remove_metadata("long")), "short", b"x" * 99
    )


@pytest.mark.parametrize("name", ["circle/mlp", "tflite/cnn_external", "tflite/zip_tail"])
def test_compact_writes_this(name: str, tmp_path: Path) -> None:
    data = spacious(bytes_of(name))
    source, target = put(tmp_path / "in", data), tmp_path / "out"
    ran = run("compact", source, target)
    assert target.read_bytes() == compacted(data)
    assert ran == Ran(0, b"", f"{len(data)} -> {target.stat().st_size} bytes\n")
    assert run("verify", target).status == 0
    assert run("compact", source, "--in-place").status == 0
    assert source.read_bytes() == target.read_bytes()


@pytest.mark.parametrize("before", [bytes, spacious, embedded], ids=["as it is", "edited", "with origins"])
def test_compact(own_model: Path, before: Callable[[bytes], bytes]) -> None:
    data = before(own_model.read_bytes())
    small = compacted(data)
    assert len(small) <= len(data)
    assert compacted(small) == small
    assert read(small) == read(data)  # every field of every table, as the published object API sees them


def test_compact_is_no_larger_than_a_repack(own_model: Path) -> None:
    data = own_model.read_bytes()
    small, repacked = compacted(data), packed(unpacked(data), data[4:8])
    if own_model.stem.endswith("_external") or own_model.stem.startswith("zip_tail"):
        # A repack loses what lies behind the flatbuffer, and compacting keeps it: every byte, but for the offsets
        # of an archive that count from the start of the file.
        first = min(at for at in tails(data) if at > 1)
        end = data.find(b"PK\1\2") if own_model.stem == "zip_tail" else len(data)
        moved = len(data) - len(small)
        assert small[first - moved : end - moved] == data[first:end]
        assert len(repacked) < len(small)
    else:
        assert len(small) <= len(repacked)


@pytest.mark.parametrize("name", ["tflite/cnn_external", "circle/cnn_external", "tflite/custom_options_external"])
def test_compact_keeps_the_alignment_of_external_data(name: str) -> None:
    data = bytes_of(name)
    small = compacted(data)
    old, new = ([at for at in tails(file) if at > 1] for file in (data, small))
    assert {before - after for before, after in zip(old, new, strict=True)} == {len(data) - len(small)}
    assert (len(data) - len(small)) % 64 == 0


def tails(data: bytes) -> list[int]:
    """Return where external data begins, and the archive."""
    model = unpacked(data)
    operators = [operator for graph in model.subgraphs for operator in graph.operators or ()]
    places = [buffer.offset for buffer in model.buffers]
    return [*places, *(operator.largeCustomOptionsOffset for operator in operators), data.find(b"PK\3\4")]


@pytest.mark.parametrize(
    "name",
    [
        "cnn",
        "cnn_external",
        "sparse",
        "two_signatures",
        "variable",
        "composite",
        "zip_tail",
        "custom_options_external",
    ],
)
def test_compact_behaves_in_litert(name: str, tmp_path: Path) -> None:
    path = path_of(f"tflite/{name}")
    small = put(tmp_path / path.name, compacted(spacious(path.read_bytes())))
    before = run_litert(path)
    assert before.stage == "ok"
    assert same_behaviour(before, run_litert(small)) is None


@pytest.mark.parametrize("name", ["mlp", "cnn", "quantized_linear", "while_loop", "two_signatures", "dynamic_batch"])
def test_compact_behaves_in_onert(name: str, tmp_path: Path) -> None:
    path = path_of(f"circle/{name}")
    small = put(tmp_path / path.name, compacted(spacious(path.read_bytes())))
    before = run_onert(path)
    assert before.stage == "ok"
    assert same_behaviour(before, run_onert(small)) is None


def archive_start(data: bytes) -> int:
    """Return what is to be added to the offsets in a ZIP archive; negative offsets are none that unzip accepts."""
    end = data.rindex(b"PK\5\6")
    size, offset = (int.from_bytes(data[end + at : end + at + 4], "little") for at in (12, 16))
    return end - size - offset


@pytest.mark.parametrize("name", ["zip_tail", "zip_tail_joined"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(embedded, id="embed"),
        pytest.param(lambda data: compacted(embedded(data)), id="embed, compact"),
        pytest.param(compacted, id="compact"),
    ],
)
def test_an_archive_stays_readable(name: str, change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    before, after = path_of(f"tflite/{name}"), put(tmp_path / "a.tflite", change(bytes_of(f"tflite/{name}")))
    with zipfile.ZipFile(before) as old, zipfile.ZipFile(after) as new:
        assert {file: new.read(file) for file in new.namelist()} == {file: old.read(file) for file in old.namelist()}
    assert archive_start(after.read_bytes()) >= 0


@pytest.mark.parametrize("fields", [bytes(18), bytes(8) + b"\x10\0\0\0\xff\xff\xff\x7f\0\0"], ids=["empty", "broken"])
def test_constants_that_look_like_an_archive(fields: bytes) -> None:
    data = bytes_of("tflite/cnn_external")
    model = unpacked(data)
    place = max(buffer.offset for buffer in model.buffers if buffer.size >= 32)
    fields = fields[:12] + b"\xff\xff\xff\x7f" + fields[16:]
    data = data[:place] + b"PK\5\6" + fields + data[place + 22 :]
    assert read(compacted(data)) == read(data)


# --- help, completion, start-up -----------------------------------------------------------------------------


def test_commands() -> None:
    ran = run("--help")
    assert (ran.status, ran.err) == (0, "")
    listed = ran.out.decode().split("Commands:\n")[1].split("\n\n")[0]
    assert re.findall(r"^  (\S+)", listed, re.M) == list(COMMANDS)
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
    for name in ("trace", "before", "after"):
        put(tmp_path / f"{name}.html", TRACE.read_bytes())
    put(tmp_path / "trace.chrome.json", OPERATOR_TRACE)
    words = last.split()[2:]
    bare = run(*words, cwd=tmp_path)
    needing = {"dump-origins": 1, "extract-origins": 1, "dump-affinity": 1, "export-affinity": 4}
    needing |= {"split": 4, "verify-split": 3}
    assert bare.status == needing.get(command, 0)
    annotated = with_affinity(embedded(MLP.read_bytes()), ["cpu"], default="cpu")
    for name in ("in", "out") if command == "export-affinity" else ("out",):
        put(tmp_path / f"{name}.circle", annotated)
    if command == "verify-split":
        assert run("split", "out.circle", "parts", cwd=tmp_path).status == 0
    assert run(*words, cwd=tmp_path).status == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_usage_names_the_arguments_plainly(command: str) -> None:
    text = run(command, "--help").out.decode()
    usage = text.splitlines()[0]
    assert re.fullmatch(rf"Usage: circletool {command} \[OPTIONS\]( [A-Z]+)+(\.\.\.| \[OUT\])?", usage)
    section = text.split("Arguments:\n")[1].split("\n\n")[0]
    for word in usage.split()[4:]:
        assert re.search(rf"^  {re.escape(word.strip('[]'))} +\w", section, re.M), section
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
    heavy = ("numpy", "flatbuffers", "rich", "circletools.model", "circletools.flatbuf", "circletools.render")
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
    assert imported("verify", MLP) == ["numpy", "circletools.model", "circletools.flatbuf"]


def test_completion() -> None:
    def complete(words: str, position: int) -> list[str]:
        words = f"circletool {words}"
        protocol = {"_CIRCLETOOL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        return run(env=protocol).out.decode().split()

    assert complete("e", 1) == ["embed-origins", "extract-origins", "export-affinity"]
    assert complete("embed-origins --na", 2) == ["--names"]
    assert complete("embed-origins --names t", 3) == ["tensor-prefix"]
    script = run(env={"_CIRCLETOOL_COMPLETE": "source_bash"}).out.decode()
    assert "_CIRCLETOOL_COMPLETE=complete_bash" in script
    assert subprocess.run(["bash", "-n"], input=script.encode(), check=False).returncode == 0  # noqa: S607


BAR = """
import sys
from circletool_cli.console import terminal
from circletool_cli.main import main
terminal._PATIENCE_SECONDS = float(sys.argv.pop(1))
main()
"""


@pytest.mark.parametrize(("patience", "drawn"), [(-1, True), (600, False)])
def test_progress_for_a_terminal_that_has_waited(patience: int, drawn: bool, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    args = [str(patience), "compact", str(MLP), str(tmp_path / "out.circle")]
    subprocess.run([sys.executable, "-c", BAR, *args], stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert ("[##############################] 0/0 MiB\r\n" in shown) == drawn
    assert shown.endswith("bytes\r\n")


# --- traces -------------------------------------------------------------------------------------------------


def test_trace_stats_in_every_form(tmp_path: Path) -> None:
    forms = {form: run("trace-stats", TRACE, "--format", form) for form in ("text", "markdown", "json", "csv")}
    assert {(ran.status, ran.err) for ran in forms.values()} == {(0, "")}
    assert b"run 0 model_0 (process 5143): time in ms\n" in forms["text"].out
    assert b"\n## run 0 model\\_0" in forms["markdown"].out or b"## run 0 model_0" in forms["markdown"].out
    document = json.loads(forms["json"].out)
    assert (document["schema_version"], document["trace"]["events"]) == (1, 150)
    rows = forms["csv"].out.decode().split("\r\n")
    assert rows[0].startswith("run,name,process,app_phase,layer,phase,self_ns,inclusive_ns")
    whole = next(part for part in document["runs"][0]["parts"] if part["app_phase"] == "all")
    assert sum(int(row.split(",")[6]) for row in rows[1:] if ",all," in row) == whole["covered_ns"]
    assert run("trace-stats", "-", "--json", stdin=TRACE.read_bytes()).out.count(b'"code"') == 0
    ran = run("trace-stats", TRACE, "--by", "function", "--format", "csv")
    assert ran.out.startswith(b"layer,phase,name,calls,self_ns,inclusive_ns\r\n")
    ran = run("trace-stats", TRACE, "--per-execution", "--format", "csv")
    assert len({row.split(b",")[0] for row in ran.out.split(b"\r\n")[1:-1]}) == 7


def test_trace_stats_of_a_bad_trace(tmp_path: Path) -> None:
    none = put(
        tmp_path / "none.txt", "          task-1001  ( 1000) [003] ...1 5.000001: tracing_mark_write: B|1000|x\n"
    )
    ran = run("trace-stats", none)
    assert ran.status == 1
    assert f"error: {none}: T001: no NN marks; was the trace recorded" in ran.err
    ran = run("trace-stats", none, "--strict")
    assert (ran.status, ran.out) == (3, b"")
    assert ran.err.startswith(f"error: {none}: T001: no NN marks (was the trace")
    ran = run("trace-stats", put(tmp_path / "bad", b"\x89PNG\0\0"))
    assert (ran.status, ran.out) == (3, b"")
    assert run("trace-stats", TRACE, "--json", "--format", "csv").status == 2
    assert run("trace-stats", tmp_path / "missing").status == 3


def test_trace_compare(tmp_path: Path) -> None:
    ran = run("trace-compare", TRACE, TRACE, "--threshold", "0")
    assert (ran.status, ran.err) == (0, "")
    line = "          task-1001  ( 1000) [003] ...1 5.0000{}: tracing_mark_write: {}\n"
    short, long = (
        put(tmp_path / f"{end}.txt", line.format("01", "B|1000|[NN_LR_PP]p") + line.format(end, "E|1000"))
        for end in ("20", "40")
    )
    assert run("trace-compare", short, long).status == 1
    assert run("trace-compare", long, short).status == 0
    assert run("trace-compare", short, long, "--threshold", "200").status == 0
    (row,) = json.loads(run("trace-compare", short, long, "--json").out)["rows"]
    assert (row["before_ns"], row["after_ns"], row["regressed"]) == (19_000, 39_000, True)
    assert run("trace-compare", "-", "-").status == 2
    assert run("trace-compare", short, long, "--format", "markdown").status == 2
    assert run("trace-compare", short, long, "--format", "csv").out.startswith(b"layer,phase,unit,before_ns")


@pytest.mark.parametrize("target", ["chrome", "perfetto"])
def test_trace_export(target: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run("trace-export", TRACE, out, "--to", target)
    assert (ran.status, ran.out, ran.err) == (0, b"", "")
    assert run("trace-export", TRACE, "-", "--to", target).out == out.read_bytes()
    runs = [json.loads(run("trace-stats", trace, "--json").out)["runs"] for trace in (TRACE, out)]
    assert runs[0] == runs[1]
    assert run("trace-export", out, out, "--to", target).status == 2
