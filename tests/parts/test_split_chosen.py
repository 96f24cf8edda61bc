"""Which runtime a split is run in, and when it is not run."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import InvalidInputError
from circletools.findings import Finding
from circletools.parts import verify as verification
from circletools.parts.compare import check_files, open_split
from circletools.parts.verify import verify_split
from tests.kit.split_support import split_to, with_devices
from tests.kit.support import bytes_of

RAN = Finding("VALUES_DIFFER", "error", "parts", "ran")


@pytest.mark.parametrize(
    ("kind", "chosen", "subgraph", "worker"),
    [
        ("circle", None, 0, "onert"),
        ("tflite", None, 0, "litert:builtin"),
        ("circle", "litert", 0, "litert:builtin"),
        ("tflite", "none", 0, None),
        ("circle", None, 1, None),
    ],
)
def test_the_main_subgraph_is_run_in_the_runtime_of_the_format(
    kind: str, chosen: Any, subgraph: int, worker: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float, int]] = []

    def start(name: str, timeout_s: float) -> nullcontext[tuple[str, float]]:
        return nullcontext((name, timeout_s))

    def compare(_files: object, started: tuple[str, float], *, seed: int, given: tuple[str, ...]) -> list[Finding]:
        asked.append((*started, seed + len(given)))
        return [RAN]

    monkeypatch.setattr(verification, "Worker", start)
    monkeypatch.setattr(verification, "compare_runs", compare)
    data = with_devices(bytes_of(f"{kind}/two_signatures"), lambda _subgraph, _operator: 0)
    split_to(data, tmp_path / "parts", kind, subgraph=subgraph)
    found = verify_split(tmp_path / "parts", runtime=chosen, subgraph=subgraph, timeout_s=5.0)
    assert asked == ([] if worker is None else [(worker, 5.0, 0)])
    others = [] if chosen == "none" or not subgraph else ["SUBGRAPH_NOT_RUN"]
    assert [one.code for one in found.findings] == (others if worker is None else [RAN.code])
    assert found.runtime == (chosen or ("onert" if kind == "circle" else "litert"))
    if not subgraph:
        assert verify_split(tmp_path / "parts", runtime=chosen, timeout_s=5.0) == found


def test_an_error_names_the_part_that_it_is_about(tmp_path: Path) -> None:
    data = with_devices(bytes_of("circle/two_signatures"), lambda _subgraph, _operator: 0)
    split_to(data, tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    part = files.part(0)
    for content in (b"", b"no model at all"):
        part.write_bytes(content)
        with pytest.raises(InvalidInputError) as caught:
            check_files(files)
        assert caught.value.location == str(part)
    part.unlink()
    part.mkdir()
    with pytest.raises(InvalidInputError, match="not a regular file") as caught:
        check_files(files)
    assert caught.value.location == str(part)
