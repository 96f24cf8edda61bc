"""Make NNAPI traces in every encoding, for benchmarks and tests.

    python -m benchmarks.traces OUT.html --lines 1000000

The file extension selects the encoding: .html, .ftrace (also .html.gz, .ftrace.gz), .ctrace (atrace -z), .pftrace,
and .z.pftrace for compressed packets.

The traced system is simulated: an application that runs a model repeatedly, a runtime with a worker thread, a driver
process, and unrelated threads. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_PAGE = (b'<!DOCTYPE html>\n<html>\n<script>var x = "B|1|";</script>\n<body>\n<script class="trace-data">\n',
         b"</script>\n</body>\n</html>\n")  # fmt: skip
_HEAD = b"# tracer: nop\n#\n#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n"
APP, DRIVER, OTHER = 5143, 784, 591
MAIN, WORKER, BINDER = 5143, 5237, 812
_NAMES = {MAIN: "NeuralNetworks", WORKER: "nn-exec", BINDER: "HwBinder:784_1", OTHER: "surfaceflinger"}
_PROCESSES = {MAIN: APP, WORKER: APP, BINDER: DRIVER, OTHER: OTHER}


class Event(NamedTuple):
    """A begin event with its text, an end event (None), or a line that is not a mark (empty)."""

    t_ns: int
    tid: int
    text: str | None


class _Clock:
    """A source of events with randomly increasing times, in whole microseconds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.t_ns = 100_000_000_000

    def at(self, tid: int, text: str | None) -> Event:
        self.t_ns += self.random.randrange(3, 60) * 1000
        return Event(self.t_ns, tid, text)


def workload(lines: int, seed: int = 0, per_run: int = 40) -> Iterator[Event]:
    """Yield runs until there are `lines` events; the last run is complete."""
    clock, count, run = _Clock(seed), 0, 0
    while count < lines:
        for event in _run(clock, run, per_run):
            count += 1
            yield event
        run += 1


def _run(clock: _Clock, number: int, executions: int) -> Iterator[Event]:
    at = clock.at
    yield at(MAIN, f"[NN_LA_PO]model_{number % 4}")
    yield from _scope(
        clock, MAIN, "[NN_LA_PP]prepare", "[NN_LR_PP]ANeuralNetworksModel_addOperand", "[NN_LU_PU]check"
    )
    yield at(MAIN, "[NN_LA_PC]compile")
    yield at(MAIN, "[NN_LR_PC]ANeuralNetworksCompilation_finish")
    yield at(MAIN, "[NN_LI_PC]prepareModel")
    yield from _scope(clock, MAIN, "[SUB][NN_LR_PC]VersionedIDevice::prepareModel")
    yield at(MAIN, "HIDL::IDevice::prepareModel_1_1::client")
    yield from _scope(
        clock, BINDER, "HIDL::IDevice::prepareModel_1_1::server", "[NN_LD_PC]SampleDriver::prepareModel"
    )
    for _ in range(4):
        yield at(MAIN, None)
    for phase, count in (("PWU", executions // 8 or 1), ("PBM", executions)):
        yield at(MAIN, f"[NN_LA_{phase}]runBenchmarkLoop")
        for _ in range(count):
            yield from _execution(clock)
        yield at(MAIN, None)
    yield at(MAIN, None)


def _scope(clock: _Clock, tid: int, *texts: str) -> Iterator[Event]:
    """Yield nested scopes."""
    yield from (clock.at(tid, text) for text in texts)
    yield from (clock.at(tid, None) for _ in texts)


def _execution(clock: _Clock) -> Iterator[Event]:
    at = clock.at
    yield at(MAIN, "[NN_LA_PE]BenchmarkModel::benchmark")
    yield from _scope(clock, MAIN, "[NN_LR_PIO]ANeuralNetworksExecution_setInput")
    yield from _scope(clock, MAIN, "[NN_LR_PE]ANeuralNetworksExecution_startCompute")
    yield at(WORKER, "[NN_LR_PE]asyncStartComputePartitioned")
    yield at(MAIN, "[NN_LR_PE]ANeuralNetworksEvent_wait")
    yield from _foreign(clock)
    if clock.random.random() < 0.5:
        yield from _scope(clock, WORKER, "[NN_LC_PTR]convQuant8", "[SW][NN_LC_PCO]optimized_ops::Conv")
    else:
        yield at(WORKER, "[NN_LI_PE]execute")
        yield at(WORKER, "HIDL::IPreparedModel::execute_1_2::client")
        yield from _scope(
            clock, BINDER, "HIDL::IPreparedModel::execute_1_2::server", "[NN_LD_PCO]SampleDriver::asyncExecute"
        )
        yield from (at(WORKER, None) for _ in range(2))
    yield from (at(WORKER, None), at(MAIN, None), at(MAIN, None))


def _foreign(clock: _Clock) -> Iterator[Event]:
    yield from _scope(clock, OTHER, "HIDL::IComposerClient::executeCommands::client")
    yield from (clock.at(OTHER, "") for _ in range(clock.random.randrange(6)))


def ftrace_lines(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield the lines of a text trace, in the kernel's columns."""
    for cpu, (t_ns, tid, text) in enumerate(events):
        name, tgid = _NAMES.get(tid, "thread"), _PROCESSES.get(tid, tid)
        mark = f"E|{tgid}" if text is None else f"B|{tgid}|{text}"
        message = "sched_waking: comm=x pid=1 prio=120" if text == "" else f"tracing_mark_write: {mark}"
        time = f"{t_ns // 10**9}.{t_ns % 10**9 // 1000:06d}"
        yield f"{name:>16}-{tid:<5} ({tgid:5}) [{cpu % 8:03}] ...1 {time}: {message}\n".encode()


def perfetto_packets(events: Iterable[Event], bundle: int = 200) -> Iterator[bytes]:
    """Yield packets: a process tree, then bundles for one CPU each."""
    threads = b"".join(
        _message(2, _number(1, tid) + _message(2, name.encode()) + _number(3, _PROCESSES[tid]))
        for tid, name in _NAMES.items()
    )
    yield _message(1, _message(2, threads))
    cpus: dict[int, list[bytes]] = defaultdict(list)
    for at, (t_ns, tid, text) in enumerate(events):
        tgid = _PROCESSES.get(tid, tid)
        mark = f"E|{tgid}\n" if text is None else f"B|{tgid}|{text}\n"
        body = _message(4, b"\x0a\x00") if text == "" else _message(3, _number(1, 1) + _message(2, mark.encode()))
        cpu = at // 7 % 4
        cpus[cpu].append(_message(2, _number(1, t_ns) + _number(2, tid) + body))
        if len(cpus[cpu]) == bundle:
            yield _message(1, _message(1, _number(1, cpu) + b"".join(cpus.pop(cpu))))
    for cpu, held in cpus.items():
        yield _message(1, _message(1, _number(1, cpu) + b"".join(held)))


def _varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def encoded(events: Iterable[Event], ending: str) -> bytes:
    """Return a trace in the encoding of a file extension, such as `.ftrace.gz`."""
    ending = f".{ending.lstrip('.')}"
    if ending.endswith(".gz"):
        return gzip.compress(encoded(events, ending.removesuffix(".gz")), 6, mtime=0)
    if ending.endswith(".pftrace"):
        packets = list(perfetto_packets(events))
        if not ending.endswith(".z.pftrace"):
            return b"".join(packets)
        groups = (b"".join(packets[at : at + 8]) for at in range(0, len(packets), 8))
        return b"".join(_message(1, _message(50, zlib.compress(group))) for group in groups)
    text = _HEAD + b"".join(ftrace_lines(events))
    if ending.endswith(".ctrace"):
        return b"TRACE:\n" + zlib.compress(text)
    return text if ending.endswith(".ftrace") else _PAGE[0] + text + _PAGE[1]


def main() -> None:
    """Write a trace."""
    parser = argparse.ArgumentParser(description="Make a trace of NNAPI at work.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000, help="at least so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-run", type=int, default=40, help="executions of a run's benchmark")
    args = parser.parse_args()
    events = workload(args.lines, args.seed, args.per_run)
    args.output.write_bytes(encoded(events, "".join(args.output.suffixes)))


if __name__ == "__main__":
    main()
