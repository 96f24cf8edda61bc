"""What the documents say is what the program does: shell lines, Python examples, bytes, commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from circletools.affinity.tables import SubgraphAffinity, decode_affinity
from circletools.metadata.stamp import decode_stamp, make_stamp, operator_record
from circletools.origin.read import decode_exact
from circletools.origin.source import SourceDetails, decode_details, encode_details
from circletools.origin.tables import decode_op_table, decode_source_table
from tests.kit.affinity_support import ids

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def shell(command: str, folder: Path) -> str:
    """Run a shell line with `circletool` on the path; return all that it writes."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def check_transcripts(page: str, folder: Path, status: int) -> None:
    """Fail unless the commands of a page print what it shows, with status 0 or another."""
    (folder / "testdata").symlink_to(ROOT / "testdata")
    for transcript in blocks(page, "console"):
        for step in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            assert shell(f"{{ {command}\n}} || [ $? -eq {status} ]", folder) == expected


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that looks like the root of a clone."""
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    return tmp_path


def test_the_transcript_is_what_the_commands_print(folder: Path) -> None:
    (transcript,) = blocks(README, "console")
    for step in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        assert shell(command, folder) == expected


def test_each_question_has_an_answer(folder: Path) -> None:
    commands = re.findall(r"^\| [^`|]+\? \| `(circletool [^`]+)` \|$", README, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        answer = shell(f"{command} || test $? = 1", folder).splitlines()  # 1: there are findings
        assert 2 < len(answer) <= 36, "short enough to be read"


def test_the_python_example_runs(folder: Path) -> None:
    (example,) = blocks(README, "python")
    printed = shell(f"{sys.executable} - <<'END'\n{example}\nEND", folder)
    assert printed.splitlines()[0] == "FULLY_CONNECTED ['torch.nn.modules.linear.Linear::linear']"


def test_what_python_shows_is_what_the_command_shows(folder: Path) -> None:
    views, more, rows, metadata = blocks((ROOT / "docs" / "python.md").read_text(encoding="utf-8"), "python")
    printed = shell(f"{sys.executable} - <<'END'\n{views}\nEND", folder).splitlines()
    assert printed[0].endswith(" True SAME")
    assert printed[2:] == ["[] 46720", "not_resident"]
    assert "AddConv2D" in shell(f"{sys.executable} - <<'END'\n{more}\nEND", folder)
    assert (folder / "small.tflite").stat().st_size < (folder / "four.tflite").stat().st_size
    assert shell(f"{sys.executable} - <<'END'\n{metadata}\nEND", folder).endswith(
        "'remark', 'buffer': 18, 'bytes': 7}] b'checked'\n"
    )
    rows += "import json\nprint(json.dumps(document))"
    message = shell(f"{sys.executable} - <<'END'\n{rows}\nEND", folder)
    command = "circletool inspect testdata/tflite/cnn_int8.tflite --operators --tensors --json"
    assert json.loads(message) == json.loads(shell(command, folder))


def test_the_first_command_installs_and_runs_the_main_job(tmp_path: Path) -> None:
    install, _ = blocks(README, "sh")
    clone = tmp_path / "clone"
    ignore = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, clone, ignore=ignore)
    assert "ONE_source_table" in shell(f"export PIP_NO_COMPILE=no; {install}", clone)  # `no` turns it on
    assert (clone / "out.circle").exists()


def test_ci_runs_the_second_command() -> None:
    _, install = blocks(README, "sh")
    assert install.strip() in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_command_is_in_the_readme() -> None:
    listed = set(re.findall(r"^\| `([a-z-]+) ", README, re.MULTILINE))
    shown = shell("circletool --help", ROOT).partition("Look:\n")[2]
    assert listed == set(re.findall(r"^  ([a-z-]+)  +[A-Z]", shown, re.MULTILINE))


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_documented_bytes_of_the_formats_are_correct() -> None:
    source, operators, exact, details, stamp, affinity = (
        bytes.fromhex("".join(line[:32] for line in block.splitlines())) for block in blocks(FORMATS, "hex")
    )
    assert decode_source_table(source) == {1: "node1"}
    assert decode_op_table(operators) == {5: {1, 2}}
    assert decode_exact(exact, {2}) == {1: {0: {2}}}
    known = {0: SourceDetails(path="q", file="net.py", line=42)}
    assert (decode_details(details, {0: "q::add"}), encode_details(known, {0: "q::add"})) == (known, details)
    assert decode_stamp(stamp) == make_stamp([[operator_record("ADD", [b"sum"])]])
    assert decode_affinity(affinity) == {0: SubgraphAffinity(ids(1, 0), ids(0, 1))}


def test_the_fields_of_attributions_are_explained() -> None:
    text = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    model, trace = ROOT / "testdata/tflite/custom_op.tflite", ROOT / "testdata/trace/benchmark_custom_op.csv"
    document = json.loads(shell(f"circletool attribute {trace} --model {model} --json 2>/dev/null", ROOT))
    rows = [row for value in document.values() if isinstance(value, list) for row in value]
    fields = {*document, *(name for row in rows for name in row)} - {"schema_version"}
    assert [name for name in sorted(fields) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("language", ["json", "csv"])
def test_the_documents_of_the_formats_are_accepted(language: str, tmp_path: Path) -> None:
    (example,) = blocks(FORMATS, language)
    (tmp_path / f"origins.{language}").write_text(example, encoding="utf-8")
    model = ROOT / "testdata" / "circle" / "diamond.circle"
    command = f"circletool embed-origins {model} out.circle --origins origins.{language}"
    assert "metadata ONE_op_table: 20 bytes" in shell(command, tmp_path)
