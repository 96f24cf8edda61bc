"""The models below a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from circletools.storage.files import models_below


def make(top: Path, *files: str) -> None:
    for name in files:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).touch()


def test_models_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    make(tmp_path, "b.circle", "a/z.tflite", "a/y/x.CIRCLE", "c/TFLITE", "d.txt", "e.circle.gz", "B.Tflite", "f/g")
    assert list(models_below(str(tmp_path))) == ["B.Tflite", "a/y/x.CIRCLE", "a/z.tflite", "b.circle"]


def test_names_that_begin_with_a_dot_are_skipped_except_the_directory_itself(tmp_path: Path) -> None:
    make(tmp_path, ".top/a.circle", ".top/.b.circle", ".top/.c/d.circle")
    assert list(models_below(str(tmp_path / ".top"))) == ["a.circle"]
    assert list(models_below(str(tmp_path))) == []


def test_links_are_followed_and_each_directory_is_entered_once(tmp_path: Path) -> None:
    make(tmp_path, "b/net.circle")
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "c.circle").symlink_to("b/net.circle")
    assert list(models_below(str(tmp_path))) == ["a/net.circle", "c.circle"]


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    for name in ("gone.circle", "gone.txt"):
        (tmp_path / name).symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.circle")
    (tmp_path / "folder.circle").mkdir()
    assert list(models_below(str(tmp_path))) == ["gone.circle"]


def test_a_directory_that_cannot_be_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a/one.circle", "b/two.circle")
    real = os.listdir

    def refuse(path: str) -> list[str]:
        if path in refused:
            raise PermissionError
        return real(path)

    monkeypatch.setattr(os, "listdir", refuse)
    refused = {str(tmp_path / "a")}
    assert list(models_below(str(tmp_path))) == ["a", "b/two.circle"]
    refused = {os.path.join(str(tmp_path), "")}
    assert list(models_below(str(tmp_path))) == ["."]
