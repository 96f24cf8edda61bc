"""Run a command in a fresh process; measure its processor time and private memory, and record any failure."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_SECONDS = 0.005


@dataclass(frozen=True)
class Run:
    """The cost of a process: processor time in seconds, and private memory; `failure` is empty on success."""

    cpu: float
    peak_kb: int
    failure: str = ""

    @property
    def peak_mb(self) -> float:
        """The peak in megabytes."""
        return self.peak_kb / 1024


def private_kb(pid: int) -> int:
    """Return the memory outside mapped files, in KiB: RssAnon + RssShmem, or 0 once the process has ended.

    VmHWM would count every page of the model that was touched through the mapping; these pages belong to the page
    cache, and cost nothing to release.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem") if name in fields)


def run(command: Sequence[str], statuses: Sequence[int] = (0, 1)) -> Run:
    """Run a command to completion; exit statuses other than these are failures."""
    ended, peak = threading.Event(), [0]

    def watch(pid: int) -> None:
        while not ended.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], private_kb(pid))

    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT
        )
        watcher = threading.Thread(target=watch, args=(process.pid,), daemon=True)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        watcher.join()
        errors.seek(0)
        words = errors.read().decode(errors="replace").strip().splitlines()
    failure = "" if process.returncode in statuses else (words or [f"exit status {process.returncode}"])[-1][:160]
    return Run(usage.ru_utime + usage.ru_stime, peak[0], failure)
