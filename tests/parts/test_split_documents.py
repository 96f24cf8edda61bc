"""The documents of a split and their findings: connections, manifest, and ends that lead nowhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.parts.compare import SplitFiles, check_files, manifest_findings, open_split
from circletools.parts.split import (
    MANIFEST,
    Connections,
    Piece,
    decode_connections,
    encode_connections,
    encode_manifest,
    find_connections,
    package_obstacle,
)
from tests.kit.build import Build

Names = Sequence[str]


def connected(inputs: Names, outputs: Names, *parts: tuple[Names, Names]) -> Connections:
    """Return connections with files called 0.circle, 1.circle, ..."""
    pieces = [Piece(f"{index}.circle", tuple(ins), tuple(outs)) for index, (ins, outs) in enumerate(parts)]
    return Connections(Piece("whole.circle", tuple(inputs), tuple(outputs)), tuple(pieces))


FORKED = connected("xy", "cb", ("x", "ab"), ("ay", "c"), ("xab", "d"))
"""x is read by the first and the last part, a by both others, b by the last, and is an output."""


# --- the manifest -------------------------------------------------------------------------------------------


def test_a_manifest_has_every_end_by_part_and_slot() -> None:
    assert json.loads(encode_manifest(FORKED, "circle")) == {
        "major-version": "1",
        "minor-version": "2",
        "patch-version": "0",
        "models": ["0.circle", "1.circle", "2.circle"],
        "model-types": ["circle"] * 3,
        "pkg-inputs": ["0:0:0", "2:0:0", "1:0:1"],
        "pkg-outputs": ["1:0:0", "0:0:1"],
        "model-connect": [{"from": "0:0:0", "to": ["1:0:0", "2:0:1"]}, {"from": "0:0:1", "to": ["2:0:2"]}],
    }


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pkg-inputs": None}, 'pkg-inputs is absent; according to the connections, it must be ["0:0:0"]'),
        ({"pkg-inputs": []}, 'pkg-inputs[0] is absent; according to the connections, it must be "0:0:0"'),
        ({"models": ["a", "b"]}, 'models[0] is "a"; according to the connections, it must be "0.circle"'),
        ({"models": ["0.circle", "b"]}, 'models[1] is "b"; according to the connections, it must be absent'),
        ({"configs": "x" * 200}, f'configs is "{"x" * 99}; according to the connections, it must be absent'),
        ([], "the manifest is []; according to the connections, it must be {"),
        ("{", "not JSON: "),
    ],
)
def test_the_first_difference_of_manifests_is_reported(change: Any, text: str, tmp_path: Path) -> None:
    simple = connected("x", "y", ("x", "y"))
    (tmp_path / "metadata").mkdir()
    document = json.loads(encode_manifest(simple, "circle"))
    changed = json.dumps({**document, **change} if isinstance(change, dict) else change)
    (tmp_path / MANIFEST).write_text(change if isinstance(change, str) else changed)
    (finding,) = manifest_findings(tmp_path, simple, expected=True)
    assert finding.message.startswith(text)


def test_findings_about_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    missing = Finding(
        "MANIFEST_MISSING", "warning", MANIFEST,
        "missing, so onert cannot load the directory as a package; split again",
    )  # fmt: skip
    simple = connected("x", "y", ("x", "a"), ("a", "y"))
    assert list(manifest_findings(tmp_path, simple, expected=True)) == [missing]
    assert list(manifest_findings(tmp_path, simple, expected=False)) == []
    assert list(manifest_findings(tmp_path, connected("x", "yy", ("x", "y")), expected=True)) == []
    (tmp_path / MANIFEST).write_bytes(encode_manifest(simple, "circle"))
    assert list(manifest_findings(tmp_path, simple, expected=True)) == []
    (tmp_path / MANIFEST).write_bytes(encode_manifest(simple, "tflite"))
    text = 'model-types[0] is "tflite"; according to the connections, it must be "circle"'
    assert list(manifest_findings(tmp_path, simple, expected=True)) == [
        Finding("MANIFEST_DIFFERS", "error", MANIFEST, text)
    ]
    lost = connected("x", "q", ("x", "y"))
    assert list(manifest_findings(tmp_path, lost, expected=True)) == [
        Finding("MANIFEST_DIFFERS", "error", MANIFEST, "no part produces the output 'q'")
    ]
    (tmp_path / MANIFEST).unlink()
    (tmp_path / MANIFEST).mkdir()
    assert list(manifest_findings(tmp_path, simple, expected=True)) == [
        Finding("MANIFEST_DIFFERS", "error", MANIFEST, "not a regular file")
    ]


PREFIX = f"no {MANIFEST}: output "
SUFFIX = ", which onert does not support; run `circletool fix-outputs"


@pytest.mark.parametrize(
    ("connections", "text"),
    [
        (connected("x", "y", ("x", "a"), ("a", "y")), None),
        (connected("x", "y", ("x", "x"), ("x", "y")), None),
        (connected("x", "y", ("x", "y"), ("x", "z")), f"no {MANIFEST}: nothing reads 'z', and onert fails if a part"
         " has such an output; remove its producer first, for example with `circletool extract --to`"),
        (connected("x", "yy", ("x", "y")), f"{PREFIX}'y' is listed twice{SUFFIX}` first"),
        (connected("x", "ay", ("x", "a"), ("a", "y")), f"{PREFIX}'a' is read by a later part{SUFFIX} --detach-taps`"
         " first"),
        (connected("x", "aya", ("x", "a"), ("a", "y")), f"{PREFIX}'a' is listed twice{SUFFIX} --detach-taps`"
         " first"),
    ],
)  # fmt: skip
def test_why_there_is_no_package(connections: Connections, text: str | None) -> None:
    assert package_obstacle(connections) == text


# --- connections --------------------------------------------------------------------------------------------


def test_connections_are_read_as_written() -> None:
    data = encode_connections(FORKED)
    assert decode_connections(data, "x") == FORKED
    assert data.startswith(b'{\n  "source": {\n    "file": "whole.circle",')
    assert data.endswith(b"}\n")


@pytest.mark.parametrize(
    ("document", "message", "place"),
    [
        ([], "not a document of connections: an object with `source` and `parts` is needed", "c.json"),
        (
            {"parts": {}}, "not a document of connections: an object with `source` and `parts` is needed", "c.json",
        ),
        ({"parts": []}, "an object with `file`, `inputs` and `outputs` is needed", "c.json: source"),
        ({"parts": [1]}, "an object with `file`, `inputs` and `outputs` is needed", "c.json: parts[0]"),
        ({"parts": [{"file": 1}]}, "an object with `file`, `inputs` and `outputs` is needed", "c.json: parts[0]"),
        ({"parts": [{"file": "f"}]}, "a list of names is needed", "c.json: parts[0].inputs"),
        (
            {"parts": [{"file": "f", "inputs": [], "outputs": ["a", 1]}]}, "a list of names is needed",
            "c.json: parts[0].outputs",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_connections(document: object, message: str, place: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        decode_connections(json.dumps(document).encode(), "c.json")
    assert (caught.value.message, caught.value.location) == (message, place)


def test_there_must_be_one_file_of_connections(tmp_path: Path) -> None:
    (tmp_path / "a.part.conn.json").mkdir()
    assert find_connections(tmp_path) is None
    with pytest.raises(InvalidInputError, match=r"not a split directory: exactly one \*\.part\.conn\.json is needed"):
        open_split(tmp_path)
    (tmp_path / "b.part.conn.json").touch()
    assert find_connections(tmp_path) == tmp_path / "b.part.conn.json"
    (tmp_path / "c.part.conn.json").touch()
    assert find_connections(tmp_path) is None


def test_the_source_is_in_the_directory_or_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "n.part.conn.json").write_bytes(encode_connections(FORKED))
    with pytest.raises(UsageError) as caught:
        open_split(folder)
    assert (caught.value.message, caught.value.location, caught.value.hint) == (
        "the model that was split is not next to the directory", str(folder), "give whole.circle as `source=`",
    )  # fmt: skip
    (tmp_path / "whole.circle").touch()
    assert open_split(folder).source == tmp_path.resolve() / "whole.circle"
    (folder / "whole.circle").touch()
    assert open_split(folder) == SplitFiles(folder, "n.part.conn.json", FORKED, folder / "whole.circle")
    assert open_split(folder, tmp_path / "other").source == tmp_path / "other"
    assert open_split(folder).part(1) == folder / "1.circle"


# --- ends ---------------------------------------------------------------------------------------------------


def checked(folder: Path, connections: Connections) -> list[tuple[str, str, str, str]]:
    """Return what is found where there is a source with as many ends as are needed, and no file of a part."""
    build = Build()
    graph = build.graph()
    ends = [[graph.tensor(f"t{slot}") for slot, _ in enumerate(names)] for names in (
        connections.source.inputs, connections.source.outputs,
    )]  # fmt: skip
    graph.ends(*ends)
    (folder / "whole.circle").write_bytes(build.to_bytes("circle"))
    files = SplitFiles(folder, "n.part.conn.json", connections, folder / "whole.circle")
    return [(one.code, one.severity, one.location, one.message) for one in check_files(files)]


@pytest.mark.parametrize(
    ("connections", "expected"),
    [
        (connected("xx", "y", ("x", "y")), ("MADE_TWICE", "source.inputs", "two inputs have the same name")),
        (
            connected("x", "y", ("a", "y"), ("x", "a")),
            ("NOT_MADE_BEFORE", "parts[0].inputs[0]", "'a' is an input, but only a later part produces it"),
        ),
        (
            connected("x", "y", ("xq", "y")),
            ("NOT_MADE_BEFORE", "parts[0].inputs[1]", "'q' is an input, but no part produces it"),
        ),
        (
            connected("x", "y", ("x", "y"), ("x", "zy")),
            ("MADE_TWICE", "parts[1].outputs[1]", "'y' is produced by two parts"),
        ),
        (connected("x", "x", ("", "x")), ("MADE_TWICE", "parts[0].outputs[0]", "'x' is produced by two parts")),
        (
            connected("x", "xy", ("x", "y"), ("y", "y")),
            ("MADE_TWICE", "parts[1].outputs[0]", "'y' is produced by two parts"),
        ),
        (connected("x", "yz", ("x", "y")), ("NOT_MADE", "source.outputs[1]", "no part produces 'z'")),
        (
            Connections(
                Piece("whole.circle", ("x",), ("y",)), (Piece("p", ("x",), ("a",)), Piece("p", ("a",), ("y",)))
            ),
            ("MADE_TWICE", "parts[1].file", "'p' is also an earlier part"),
        ),
    ],
)
def test_an_end_that_leads_nowhere(connections: Connections, expected: tuple[str, str, str], tmp_path: Path) -> None:
    code, place, message = expected
    assert checked(tmp_path, connections) == [(code, "error", place, message)]


def test_a_part_hands_an_input_of_the_whole_on(tmp_path: Path) -> None:
    """Then its file is opened, which is not there."""
    with pytest.raises(InvalidInputError, match=r"0\.circle"):
        checked(tmp_path, connected("x", "xy", ("x", "xy")))


# --- operators ----------------------------------------------------------------------------------------------
