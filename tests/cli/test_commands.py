"""What commands say and how they end, in the cases that differ by one option."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from circletool_cli.commands.rewriting import target
from circletool_cli.commands.traces import _show_diagnostics
from circletool_cli.console.captured import Captured, capturing

import circletools as ct
from circletools.trace.nnapi.machine import Diagnostic
from tests.kit.affinity_support import with_affinity
from tests.kit.origin_support import embedded
from tests.kit.program import MLP, TRACE, put, run
from tests.kit.split_support import alternating, with_devices
from tests.kit.support import bytes_of, edited, noted, path_of
from tests.kit.tracking_support import chain

BEFORE, AFTER = (
    path_of("circle/mlp").parents[1] / "tracking" / f"views.optimised.{end}.circle" for end in ("before", "after")
)
ONERT = path_of("circle/mlp").parents[1] / "trace" / "onert_if_cond.chrome.json"
IF_COND = path_of("circle/if_cond")


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """Return a model with devices."""
    return put(tmp_path / "devices.circle", with_affinity(MLP.read_bytes(), ["cpu"], default="cpu"))


# --- split and verify-split ---------------------------------------------------------------------------------


def test_split_shows_how_many_parts(devices: Path, tmp_path: Path) -> None:
    one, three = tmp_path / "one", tmp_path / "three"
    ran = run("split", devices, one)
    assert (ran.status, ran.out, ran.err) == (0, b"", f"{one}: 1 part\n")
    several = put(tmp_path / "several.circle", with_devices(MLP.read_bytes(), alternating))
    ran = run("split", several, three, "--json")
    document = json.loads(ran.out)
    count = len(document["parts"])
    assert count > 1
    assert (ran.status, ran.err) == (0, f"{three}: {count} parts\n")
    assert run("split", several, three).status == 2
    ran = run("split", several, three, "--force")
    assert (ran.status, ran.out, ran.err) == (0, b"", f"{three}: {count} parts\n")


def test_verify_split(devices: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    assert run("split", devices, parts).status == 0
    ran = run("verify-split", parts, "--on", "none")
    assert (ran.status, ran.out, ran.err) == (0, f"{parts}: ok\n".encode(), "")
    document = json.loads(run("verify-split", parts, "--on", "none", "--json").out)
    assert document["findings"] == []
    other = put(tmp_path / "other.circle", bytes_of("circle/diamond"))
    ran = run("verify-split", parts, "--on", "none", "--source", other, "--json")
    assert (ran.status, bool(json.loads(ran.out)["findings"])) == (1, True)


# --- rewrites -----------------------------------------------------------------------------------------------


def test_the_target_of_a_rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, other = put(tmp_path / "a", b""), put(tmp_path / "b", b"")

    def refused(source: str, output: str | None, in_place: bool) -> str:
        with pytest.raises(ct.UsageError) as caught:
            target(source, output, in_place)
        return str(caught.value)

    assert target("in", "out", in_place=False) == "out"
    assert target(str(model), None, in_place=True) == str(model)
    assert target(str(model), str(model), in_place=True) == str(model)
    assert refused("in", None, False) == "no output file (name one, or use --in-place)"
    assert refused("-", None, True) == "standard input cannot be overwritten (name an output file)"
    message = "--in-place overwrites IN, but OUT is another file (leave out one of the two)"
    assert refused(str(model), str(other), True) == message
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    message = "the output is binary, and standard output is a terminal (name a file, or use a pipe)"
    assert (refused("in", "-", False), target("in", "out", in_place=False)) == (message, "out")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert target("in", "-", in_place=False) == "-"
    monkeypatch.setattr(sys, "stdout", None)
    assert target("in", "-", in_place=False) == "-"


def test_a_dry_run_writes_nothing_but_fails_where_writing_would(tmp_path: Path) -> None:
    twice = put(tmp_path / "in.circle", bytes_of("circle/output_twice"))
    before, out = twice.read_bytes(), tmp_path / "out.circle"
    plain = run("fix-outputs", twice, "--dry-run")
    assert plain.status == 0
    assert plain.err.count("\n") > 0
    for words in ([out], ["--in-place"], ["-"]):
        assert run("fix-outputs", twice, *words, "--dry-run") == plain
    ran = run("fix-outputs", twice, tmp_path / "no" / "out", "--dry-run")
    assert (ran.status, ran.out) == (4, b"")
    ran = run("fix-outputs", twice, twice, "--dry-run")
    assert (ran.status, ran.err) == (2, f"error: {twice}: input and output are the same file (use --in-place)\n")
    assert (twice.read_bytes(), sorted(tmp_path.iterdir())) == (before, [twice])
    document = json.loads(run("fix-outputs", twice, "--dry-run", "--json").out)
    assert document["changes"] == plain.err.splitlines()
    assert json.loads(run("fix-outputs", twice, out, "--json").out) == document
    ran = run("fix-outputs", twice, "-", "--json")
    error = "error: --json and the output file would both go to standard output (name a file, or leave out --json)\n"
    assert (ran.status, ran.out, ran.err) == (2, b"", error)


def test_what_is_stripped(devices: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.circle"
    whole = put(devices, noted(embedded(devices.read_bytes())))
    ran = run("metadata", "remove", whole, out)
    assert (ran.status, ran.err) == (
        2,
        "error: nothing to remove (use --name NAME, --origins, --affinity or --files)\n",
    )
    removed = {}
    for words in (["--origins"], ["--affinity"], ["--name", "note"], ["--origins", "--name", "note"]):
        ran = run("metadata", "remove", whole, out, *words)
        assert ran.status == 0
        removed[" ".join(words)] = {line.split()[1].rstrip(":") for line in ran.err.splitlines()}
    origins, affinity = removed["--origins"], removed["--affinity"]
    assert {name for name in origins if name.startswith("ONE_")} == {"ONE_source_table", "ONE_op_table"}
    assert removed["--name note"] == {"note"}
    assert removed["--origins --name note"] == origins | {"note"}
    assert any("affinity" in name for name in affinity)
    assert "note" not in affinity | origins


# --- origins ------------------------------------------------------------------------------------------------


def test_tracking_a_model(tmp_path: Path) -> None:
    out = tmp_path / "out.circle"
    ran = run("track-origins", BEFORE, AFTER, out)
    assert run("track-origins", BEFORE, AFTER, "--dry-run").out == ran.out != b""
    assert run("track-origins", BEFORE, AFTER, "-", "--dry-run").out == ran.out
    document = json.loads(run("track-origins", BEFORE, AFTER, "-", "--dry-run", "--json").out)
    assert document["operators"]
    piped = run("track-origins", BEFORE, AFTER, "-")
    assert (piped.out, piped.status) == (out.read_bytes(), ran.status)
    mixed = run("track-origins", BEFORE, AFTER, "-", "--json")
    assert (mixed.status, mixed.out) == (2, b"")
    assert mixed.err.startswith("error: --json and the output file would both go")
    ran = run("track-origins", "-", "-", out)
    assert (ran.status, ran.err) == (2, "error: BEFORE and AFTER cannot both come from standard input\n")
    for before, after, stdin in (("-", AFTER, BEFORE), (BEFORE, "-", AFTER)):
        assert run("track-origins", before, after, "--dry-run", stdin=stdin.read_bytes()).out != b""
    assert run("track-origins", BEFORE, AFTER, BEFORE).err.startswith(f"error: {BEFORE}: the output is also an input")


def test_how_tracking_ends(tmp_path: Path) -> None:
    """Status 1 where no operator has an origin; with --strict, where any has none."""
    before = put(tmp_path / "before.tflite", chain("TANH", "FULLY_CONNECTED", "RELU"))
    some = put(tmp_path / "some.tflite", chain("TANH", "FULLY_CONNECTED", "CONV_2D", "RELU", "ARG_MAX"))
    none = put(tmp_path / "none.tflite", chain("TANH", "CEIL", "COS"))
    sure = ["--dry-run", "--min-confidence", "0.95"]
    for after, words, status in ((before, [], 0), (before, ["--strict"], 0), (some, [], 0), (some, ["--strict"], 1)):
        ran = run("track-origins", before, after, *sure, *words)
        assert ran.status == status
        assert ("there is no origin for" in ran.err) == (after == some)
    ran = run("track-origins", before, none, *sure)
    assert ran.status == 1
    assert "warning: " in ran.err


def test_existing_origins_are_replaced_only_on_demand(tmp_path: Path) -> None:
    before, after = put(tmp_path / "b.circle", embedded(MLP.read_bytes())), tmp_path / "a.circle"
    put(after, edited(MLP.read_bytes(), lambda edit: ct.origins.embed(edit, own("mine"))))
    ran = run("track-origins", before, after, "--dry-run")
    assert ran.status == 4
    assert "--replace" in ran.err
    assert run("track-origins", before, after, "--dry-run", "--replace").status == 0
    ran = run("track-origins", before, before, tmp_path / "out.circle", "--no-stamp")
    assert ran.status == 0
    assert b"CIRCLETOOLS_stamp" not in (tmp_path / "out.circle").read_bytes()[:200]


def own(name: str) -> ct.origins.Origins:
    """Return the origins of MLP, whose operators all have the source `name`."""
    document = {
        "sources": [{"id": 0, "name": name}],
        "operators": [{"operator_index": at, "sources": [0]} for at in range(3)],
    }
    return ct.origins.parse(json.dumps(document), "x.json")


def test_names_and_a_file_of_origins_exclude_each_other(tmp_path: Path) -> None:
    file = put(tmp_path / "o.json", "{}")
    ran = run("embed-origins", MLP, tmp_path / "out", "--origins", file, "--names", "output")
    assert ran.status == 2
    assert ran.err == "error: --origins and --names cannot be combined: each determines the sources\n"
    ran = run("embed-origins", MLP, tmp_path / "out", "--origins", tmp_path / "none")
    assert (ran.status, ran.err) == (3, f"error: {tmp_path / 'none'}: cannot read it: No such file or directory\n")


def test_extracting_from_standard_input(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    model = embedded(MLP.read_bytes())
    ran = run("dump-origins", "-", "--tables", tables, stdin=model)
    names = ["ONE_source_table.bin", "ONE_op_table.bin", "origins.json"]
    sizes = {name: (tables / name).stat().st_size for name in names}
    assert ran.status == 0
    assert set(ran.err.splitlines()) >= {f"{tables / name}: {size} bytes" for name, size in sizes.items()}
    text = (tables / "origins.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    ran = run("dump-origins", "-", "--tables", tmp_path / "none", stdin=MLP.read_bytes())
    assert (ran.status, (tmp_path / "none").exists()) == (1, False)
    here = put(tmp_path / "origins.json", model)
    ran = run("dump-origins", here, "--tables", tmp_path)
    assert (ran.status, ran.err) == (2, f"error: {here}: this would overwrite the input (name another DIR)\n")
    assert here.read_bytes() == model


# --- affinity -----------------------------------------------------------------------------------------------


def test_affinity_by_operator_and_by_partition(devices: Path) -> None:
    text = {by: run("partition", devices, "--by", by).out.decode() for by in ("operator", "partition")}
    assert run("partition", devices).out.decode() == text["partition"]
    assert {by: "SOFTMAX" in shown for by, shown in text.items()} == {"operator": True, "partition": False}
    rows = run("partition", devices, "--format", "csv").out.decode().splitlines()
    assert (rows[0], len(rows)) == ("subgraph,operator_index,code,output,device,partition", 1 + 3)
    assert run("partition", MLP).status == 1


def test_a_document_and_a_model_do_not_share_standard_output(devices: Path, tmp_path: Path) -> None:
    words: list[str | Path] = ["--devices", "cpu", "--default", "cpu"]
    message = "error: --json and the output file would both go to standard output (name an output file)\n"
    ran = run("annotate-affinity", MLP, "-", *words, "--json")
    assert (ran.status, ran.out, ran.err) == (2, b"", message)
    assert run("annotate-affinity", MLP, "-", *words).out == devices.read_bytes()
    shown = run("annotate-affinity", MLP, tmp_path / "out.circle", *words, "--json").out
    assert json.loads(shown) == json.loads(run("partition", MLP, *words, "--json").out)


def test_exports_to_a_file_and_to_standard_output(devices: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.part"
    shown = run("export-affinity", devices, "--to", "part").out
    assert shown
    assert run("export-affinity", devices, "--to", "part", "-o", "-").out == shown
    ran = run("export-affinity", devices, "--to", "part", "-o", file)
    assert (ran.status, ran.out, file.read_bytes()) == (0, b"", shown)
    for to in ("part", "dot"):
        ran = run("export-affinity", devices, "--to", to, "--json")
        assert (ran.status, ran.err) == (2, f"error: the target {to} has no JSON output\n")
    ran = run("export-affinity", devices, "--to", "part", "-o", devices)
    assert ran.err == f"error: {devices}: the output is also an input (name another file)\n"


# --- models and traces --------------------------------------------------------------------------------------


def test_a_report_reads_standard_input_once(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = run("report", "-", "--trace", "-", "-o", page)
    assert (ran.status, ran.err) == (2, "error: only one of the inputs can come from standard input\n")
    assert run("report", "-", "-o", page, stdin=IF_COND.read_bytes()).status == 0
    alone = page.read_bytes()
    ran = run("report", IF_COND, "--trace", "-", "-o", page, stdin=ONERT.read_bytes())
    assert ran.status == 0
    assert page.read_bytes() != alone
    twice = path_of("circle/output_twice")
    ran = run("report", twice, "-o", page)
    assert ran.status == 1
    assert ran.err.endswith(": see the page\n")
    assert page.read_bytes().startswith(b"<!doctype html>")


def test_attribution_shows_all_tables_unless_some_are_named() -> None:
    words: list[str | Path] = ["attribute", ONERT, "--model", IF_COND]
    whole = run(*words)
    tables = ("--by", "type", "--by", "operator")
    assert whole.out == run(*words, *tables).out, "without origins, no sources"
    every = run(*words, *tables, "--by", "source", "--by", "module")
    assert len(whole.out) < len(every.out)
    ran = run("attribute", "-", "--model", "-")
    assert (ran.status, ran.err) == (2, "error: the trace and the model cannot both come from standard input\n")
    assert run("attribute", "-", *words[2:], stdin=ONERT.read_bytes()).out == whole.out


def test_a_difference_of_sections() -> None:
    other = path_of("circle/diamond")
    assert run("diff", MLP, MLP).status == 0
    ran = run("diff", MLP, other)
    assert (ran.status, ran.out) == (
        1,
        run("diff", MLP, other, "--only", "structure, metadata,file,origins,affinity").out,
    )
    assert run("diff", MLP, other, "--ignore", "*").status == 0
    assert run("diff", MLP, other, "--only", "affinity").status == 0
    ran = run("diff", "-", "-")
    assert (ran.status, ran.err) == (2, "error: only one of the models can come from standard input\n")


def diagnostic(severity: Literal["error", "warning", "info"], count: int = 1) -> Any:
    return Diagnostic("T010", severity, "trace:1", "said", count, "do this")


def test_diagnostics_of_traces_are_reported() -> None:
    def found(*several: Any) -> tuple[bool, list[tuple[str | None, str]]]:
        with capturing(Captured()) as captured:
            failed = _show_diagnostics(cast(Any, SimpleNamespace(diagnostics=list(several))))
        return failed, captured.messages

    info, warning, error = (diagnostic(severity) for severity in ("info", "warning", "error"))
    assert found() == (False, [])
    message = "trace:1: T010: said; do this"
    assert found(info, warning) == (False, [("note", message), ("warning", message)])
    assert found(error, warning) == (True, [("error", message), ("warning", message)])
    several = [("note", f"trace:1: T010: said ({count} times); do this") for count in (2, 3)]
    assert found(diagnostic("info", 2), diagnostic("info", 3))[1] == several
    assert len(found(*[info] * 20)[1]) == 20
    failed, messages = found(*[info] * 22, error)
    assert failed
    assert messages == [("note", message)] * 20 + [(None, "and 3 more; --format json shows all")]
    assert found(*[info] * 21)[1][20:] == [(None, "and 1 more; --format json shows all")]


def test_a_table_of_a_trace_is_that_of_layers_unless_functions_are_asked_for() -> None:
    words: list[str | Path] = ["trace-stats", TRACE, "--format", "csv"]
    assert run(*words).out == run(*words, "--by", "bucket").out != run(*words, "--by", "function").out
    text = run(*words[:2]).out
    assert len({run(*words[:2], "--by", by).out for by in ("bucket", "function")} | {text}) == 3
    assert run(*words[:2], "--format", "text").out == text
