"""Threads that work on different models do not disturb each other."""

from __future__ import annotations

import subprocess
import sys

from tests.kit.support import ROOT
from tests.kit.thread_work import WORK


def digests(threads: int) -> list[str]:
    command = [sys.executable, "-W", "error", "-m", "tests.kit.thread_work", str(threads)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True, timeout=300)
    return done.stdout.splitlines()


def test_threads_give_the_same_bytes_as_one_after_the_other() -> None:
    alone = digests(1)
    assert len(set(alone)) > 20 * len(WORK)
    assert digests(8) == alone
