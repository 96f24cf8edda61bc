"""The commands embed-origins, extract-origins and strip-metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.origin import NameSource, Origins
from tests.kit.cli_origins import BREAKS, LONG, NAMES, SEVERAL, SHOWN
from tests.kit.origin_support import EXACT, OP, SOURCE, STAMP, embedded, origins, value_of
from tests.kit.program import LOOP, MLP, Ran, files_in, put, run
from tests.kit.support import noted, path_of, unpacked


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
    ("csv", "", ":1: the header line lacks operator_index, source_id, source_name"),
    ("csv", "x" * 200_000 + "\n", ":1: the header line lacks operator_index"),
    ("csv", "source_id,source_name\n", ":1: the header line lacks operator_index"),
    ("csv", HEADER + "0,0,a\n1,x,b\n", ":3: `source_id` must be a whole number"),
    ("csv", HEADER + "-1,0,a\n", ":2: `operator_index` must be a whole number"),
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
def test_names_that_do_not_fit_a_table(ending: str, content: str, tmp_path: Path) -> None:
    document = put(tmp_path / f"a.{ending}", content)
    ran = run("embed-origins", MLP, tmp_path / "out.circle", "--origins", document)
    assert (ran.status, ran.err.startswith(f"error: {document}:")) == (3, True)


def test_origins_of_an_operator_that_does_not_exist(tmp_path: Path) -> None:
    document = put(tmp_path / "a.csv", HEADER + "3,0,a\n")
    ran = run("embed-origins", MLP, tmp_path / "out.circle", "--origins", document)
    place = f"{document}: subgraphs[0].operators[3]"
    assert ran == Ran(3, b"", f"error: {place}: the operator does not exist; the count is 3\n")
    missing = run("embed-origins", MLP, "-", "--origins", tmp_path / "missing.json")
    assert missing.status == 3
    assert missing.err == f"error: {tmp_path / 'missing.json'}: cannot read it: No such file or directory\n"


def test_names_and_stamp() -> None:
    debug = path_of("tflite/debug_metadata")
    assert run("embed-origins", debug, "-").out == embedded(debug.read_bytes(), names=NameSource.AUTO)
    for names in NameSource:
        ran = run("embed-origins", debug, "-", "--names", names.value, "--no-stamp")
        assert ran.out == embedded(debug.read_bytes(), names=names, stamp=False)
    ran = run("embed-origins", MLP, "-", "--names", "debug-metadata")
    assert (ran.status, ran.out) == (4, b"")


def test_replace(twice: Path) -> None:
    ran = run("embed-origins", twice, "-", "--replace")
    note = f"note: {twice}: sources are named after TICO's tensor names\n"
    assert (ran.status, ran.out, ran.err) == (0, twice.read_bytes(), f"nothing to change\n{note}")
    ran = run("embed-origins", twice, "-", "--replace", "--names", "tensor-names", "--no-stamp")
    assert ran.out == embedded(twice.read_bytes(), names=NameSource.TENSOR_NAMES, stamp=False, replace=True)
    assert ran.err.endswith(f"metadata {STAMP}: removed\n{note}")


def test_extract(tmp_path: Path) -> None:
    data = embedded(LOOP.read_bytes(), SEVERAL)
    folder = tmp_path / "some" / "where"
    ran = run("dump-origins", put(tmp_path / "a.circle", data), "--tables", folder)
    assert (ran.status, ran.out) == (0, b"")
    assert files_in(folder) == {*(f"{name}.bin" for name in (SOURCE, OP, EXACT, STAMP)), "origins.json"}
    for name in (SOURCE, OP, EXACT, STAMP):
        assert (folder / f"{name}.bin").read_bytes() == value_of(data, name)
    assert run("embed-origins", LOOP, "-", "--origins", folder / "origins.json").out == data


def test_extract_of_nothing(tmp_path: Path) -> None:
    ran = run("dump-origins", MLP, "--tables", tmp_path / "tables")
    assert (ran.status, files_in(tmp_path)) == (1, set())
    assert ran.err.startswith(f"warning: {MLP}: the model has no origins")


def test_extract_to_a_file(twice: Path) -> None:
    ran = run("dump-origins", twice, "--tables", twice)
    assert ran == Ran(2, b"", f"error: {twice}: the output is a file; name a directory\n")


def test_strip_names(tmp_path: Path) -> None:
    data = noted(noted(noted(MLP.read_bytes(), "one", b"1"), "two", b"2"), "three", b"3")
    model = put(tmp_path / "a.circle", data)
    ran = run("metadata", "remove", model, "-", "--name", "one", "--name", "three")
    assert (ran.status, ran.err) == (0, "metadata one: removed\nmetadata three: removed\n")
    assert [value_of(ran.out, name) for name in ("one", "two", "three")] == [None, b"2", None]
    ran = run("metadata", "remove", model, "-", "--name", "four")
    assert (ran.status, ran.out) == (2, b"")
    names = {entry.name.decode() for entry in unpacked(data).metadata}
    assert ran.err == f"error: the model has no metadata entry 'four' (available: {', '.join(sorted(names))})\n"
    assert run("metadata", "remove", model, "-").status == 2


def test_strip_a_name_that_is_given_twice() -> None:
    ran = run("metadata", "remove", "-", "-", "--name", "note", "--name", "note", stdin=noted(MLP.read_bytes()))
    assert (ran.status, ran.out) == (0, MLP.read_bytes())


def test_strip_origins(tmp_path: Path) -> None:
    data = noted(embedded(LOOP.read_bytes(), SEVERAL))
    ran = run("metadata", "remove", "-", "-", "--origins", stdin=data)
    assert ran.err.splitlines() == [f"metadata {name}: removed" for name in (SOURCE, OP, EXACT, STAMP)]
    assert value_of(ran.out, "note") == b"a value"  # its buffer stays behind those that are now empty
    both = run("metadata", "remove", "-", tmp_path / "bare.circle", "--origins", "--name", "note", stdin=data)
    assert (both.status, (tmp_path / "bare.circle").read_bytes()) == (0, LOOP.read_bytes())
