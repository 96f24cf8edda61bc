"""One command in a fresh process: its wall time, its private memory, and why it failed."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""Where `-m benchmarks.peers` is found from, whichever interpreter runs it."""

SAMPLE_SECONDS = 0.005


@dataclass(frozen=True)
class Run:
    """What one process cost. `lines` counts what it printed; `failure` is empty when it went well."""

    seconds: float
    peak_kb: int
    lines: int
    failure: str = ""


def private_kb(pid: int) -> int:
    """Return the memory outside mapped files, in KiB: RssAnon + RssShmem, 0 once the process is gone.

    VmHWM would count every page of the model that was touched through the mapping: those belong to the
    page cache and cost nothing to give back.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem") if name in fields)


class _Watch(threading.Thread):
    """Samples the memory of a process until stopped, and ends the process when its time is up."""

    def __init__(self, pid: int, timeout: float) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.deadline = time.monotonic() + timeout
        self.peak_kb = 0
        self.timed_out = False
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            self.peak_kb = max(self.peak_kb, private_kb(self.pid))
            if not self.timed_out and time.monotonic() > self.deadline:
                self.timed_out = True
                os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def run(command: Sequence[str], timeout: float) -> Run:
    """Run a command to its end, its output into a file: a pipe would make it wait for the reader."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=ROOT)
        watch = _Watch(process.pid, timeout)
        watch.start()
        # Without a timeout, as with one `wait` sleeps between its looks and rounds the time up.
        code = process.wait()
        seconds = time.perf_counter() - started
        watch.stop()
        output.seek(0)
        errors.seek(0)
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: output.read(1 << 20), b""))
        reason = ""
        if watch.timed_out:
            reason = f"no end within {timeout:g} s"
        elif code:
            reason = _last_line(errors.read()) or f"exit code {code}"
    return Run(seconds, watch.peak_kb, lines, reason)


def _last_line(errors: bytes) -> str:
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip(" ╭╮╰╯─│")]
    return lines[-1][:160] if lines else ""
