"""Documents in files: what cannot be read, and what an earlier run wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import InvalidInputError
from circletools.storage.documents import naming_files, of_model, read_baseline, read_bytes
from circletools.wording import SCHEMA_VERSION


def name_of(document: Mapping[str, Any]) -> str:
    return str(document["name"].upper())


def written(path: Path, *documents: object, ends: str = "\n") -> Path:
    path.write_text("".join(json.dumps(one) + ends for one in documents))
    return path


def known(name: object) -> dict[str, object]:
    return {"schema_version": SCHEMA_VERSION, "file": name, "name": name}


def test_errors_within_are_about_the_file() -> None:
    with pytest.raises(InvalidInputError) as caught, naming_files():
        raise InvalidInputError("no")
    assert caught.value.names_file


def test_the_reason_is_that_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read it: No such file or directory") as caught:
        read_bytes(tmp_path / "none")
    assert caught.value.location == str(tmp_path / "none")
    with pytest.raises(InvalidInputError, match="not a file name: embedded null byte"):
        read_bytes("a\0b")
    if os.path.exists("/dev/zero"):
        with pytest.raises(InvalidInputError, match="cannot read it: it is a device"):
            read_bytes("/dev/zero")


@pytest.mark.parametrize("ends", ["\n", "", "\n\n"])
def test_one_document_or_one_a_line(ends: str, tmp_path: Path) -> None:
    one = read_baseline(written(tmp_path / "one", known("a"), ends=ends), "check", name_of)
    assert (of_model(one, "x", True), of_model(one, "x", False), of_model(one, "a", False)) == ("A", None, "A")
    if ends:
        several = written(tmp_path / "several", known("a"), known("b"), ends=ends)
        found = read_baseline(several, "check", name_of)
        for folder in (tmp_path, Path()):
            names = [os.fspath(folder / name) for name in ("a", "./x/../b", "c")]
            assert [of_model(found, name, True) for name in names] == ["A", "B", None]
    (tmp_path / "one").write_text(json.dumps(known("a"), indent=1))
    assert read_baseline(tmp_path / "one", "check", name_of)[""] == "A"


def test_an_empty_file_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        read_baseline(written(tmp_path / "one"), "check", name_of)
