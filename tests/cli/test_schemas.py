"""The JSON of every command keeps to docs/schemas, for one file and for three, also where one cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from circletool_cli.signature import parameters_of
from circletool_cli.table import COMMANDS

from tests.kit.origin_support import embedded
from tests.kit.presence import need_extra
from tests.kit.program import MLP, TRACE, put, run
from tests.kit.support import ROOT, path_of

jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads((ROOT / "docs/schemas/circletool.schema.json").read_text(encoding="utf-8"))
TESTDATA = ROOT / "testdata"
ONERT = TESTDATA / "trace/onert_if_cond.chrome.json"
PLAN = "--devices npu,cpu --capabilities npu=litert-gpu"
SEVERAL = {
    # What a command takes beside the files, by the name of its schema.
    "inspect": ["", "--operators --tensors", "--cost"],
    "inspect --digest": [""],
    "check": ["", "--structure-only"],
    "fit": ["--on litert-gpu,ethos-u55"],
    "cost": ["", "--by operator", "--by module"],
    "metadata list": [""],
    "dump-origins": [""],
    "partition": [
        PLAN,
        "--devices npu,cpu --set op:*=npu --by operator --mode seed",
        "--costs COSTS --memory npu=99999",
    ],
}
ALONE = {
    "fix-outputs": ["TWICE --dry-run"],
    "reduce": ["MODEL OUT --while-refused litert"],
    "requires": ["BLOCKS", "BLOCKS --runtime litert-2", "BLOCKS --lower -o OUT"],
    "annotate-affinity": [f"MODEL OUT {PLAN}"],
    "partition": ["ANNOTATED", "ANNOTATED --costs COSTS", "MODEL"],
    "track-origins": ["BEFORE AFTER --dry-run"],
    "compare": ["INT8 --on litert:reference,litert:builtin", "TWICE"],
    "diff": ["MODEL ANNOTATED", "MODEL MODEL"],
    "diff --attest": ["MODEL ANNOTATED"],
    "split": ["ANNOTATED SPLIT --force"],
    "verify-split": ["PARTS --on none"],
    "attribute": ["TIMES --model IF_COND"],
    "profile": ["TWICE --on litert --runs 2"],
    "trace-compare": ["TRACE TRACE", "TIMES TIMES --operators"],
    "measure": ["PARTS --on npu=onert --on cpu=onert --seconds 0.01"],
}
OWN_FORMATS = {"export-affinity"}
"""Commands whose JSON is that of another program."""


def closed(schema: Any) -> Any:
    """Return a schema that takes no fields but those that it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "properties" in schema:
        named = {name: closed(one) for name, one in schema["properties"].items()}
        return {**schema, "properties": named, "additionalProperties": False}
    return {name: closed(one) for name, one in schema.items()}


CLOSED = closed(SCHEMA["$defs"])


def check(name: str, document: Any) -> None:
    """Fail if a document does not match the schema of a command."""
    kind = "error" if "exit_status" in document else name
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": CLOSED}).validate(document)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("schemas")
    tracking = TESTDATA / "tracking"
    times = [
        {"name": name, "launch_us": 1, "operators": [{"select": "op:*", "time_us": 1}]} for name in ("npu", "cpu")
    ]
    found = {
        "COSTS": put(folder / "costs.json", json.dumps({"schema_version": 1, "devices": times})),
        "MODEL": path_of("circle/diamond"),
        "INT8": path_of("tflite/cnn_int8"),
        "TWICE": path_of("tflite/output_twice"),
        "BEFORE": tracking / "views.optimised.before.circle",
        "AFTER": tracking / "views.optimised.after.circle",
        "IF_COND": path_of("circle/if_cond"),
        "BLOCKS": path_of("tflite/blockwise_int4"),
        "TRACE": TRACE,
        "TIMES": ONERT,
        "OUT": folder / "out.circle",
        "ANNOTATED": folder / "annotated.circle",
        "SPLIT": folder / "split",
        "PARTS": folder / "parts",
        "ORIGINS": put(folder / "origins.circle", embedded(MLP.read_bytes())),
        "BROKEN": put(folder / "broken.circle", b"no model"),
    }
    rules = ("--devices", "npu,cpu", "--set", "index:1-2=npu")
    assert run("annotate-affinity", found["MODEL"], found["ANNOTATED"], *rules).status == 0
    assert run("split", found["ANNOTATED"], found["PARTS"]).status == 0
    return found


def filled(words: str, places: dict[str, Path]) -> list[str | Path]:
    return [places.get(word, word) for word in words.split()]


def test_every_command_with_json_has_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid({"schema_version": 1, "made": "up"})
    with_json = {row.name for row in COMMANDS if any(one.name == "form" for one in parameters_of(row.function))}
    assert with_json - OWN_FORMATS == {*SEVERAL, *ALONE, "trace-stats"} - {
        "inspect --digest", "diff --attest"
    }  # fmt: skip


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, rows in SEVERAL.items() for words in rows])
def test_one_file_and_three(name: str, words: str, places: dict[str, Path]) -> None:
    command, _, more = name.partition(" --")
    options = [*command.split(), *([f"--{more}"] if more else []), *filled(words, places), "--json"]
    files = [places["ORIGINS"], path_of("tflite/shuffle"), places["BROKEN"]]
    lines = run(*options, *files).out.splitlines()
    assert [json.loads(line)["file"] for line in lines] == list(map(str, files))
    for file, line in zip(files, lines, strict=True):
        document = json.loads(run(*options, file).out)
        assert document == json.loads(line), "the same alone as among others"
        check(name, document)


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, rows in ALONE.items() for words in rows])
def test_documents_of_one_file(name: str, words: str, places: dict[str, Path]) -> None:
    command, _, more = name.partition(" --")
    ran = run(*command.split(), *filled(words, places), *([f"--{more}"] if more else []), "--json")
    need_extra(ran.err)
    check(name, json.loads(ran.out))


def test_documents_of_traces(tmp_path: Path) -> None:
    files = [TRACE, put(tmp_path / "none.html", b"no trace"), TRACE]
    for words in ([], ["--per-execution"], ["--by", "function"], ["--by", "bucket"]):
        lines = run("trace-stats", *files, "--json", *words).out.splitlines()
        for file, line in zip(files, lines, strict=True):
            document = json.loads(run("trace-stats", file, "--json", *words).out)
            assert document == json.loads(line)
            check("trace-stats", document)
