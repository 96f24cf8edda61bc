"""What the tests of traces share: traces written as tables, and a slow reading of them to compare with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import strategies as st

from circletools.render.trace_slices import chrome_parts, perfetto_parts
from circletools.render.traces import trace_json
from circletools.trace.nnapi.analysis import Analysis, analyse
from circletools.trace.nnapi.marks import LAYERS, PHASES, SUBPHASES, classify
from circletools.trace.nnapi.statistics import Table
from circletools.trace.sources import open_trace
from tests.kit.support import TESTDATA

US = 1000
Bucket = tuple[str, str]


class Ev(NamedTuple):
    """A begin with its text, or an end (None), at a microsecond. Threads are process * 100 + number."""

    at: int
    tid: int
    text: str | None

    @property
    def tgid(self) -> int:
        return self.tid // 100


def table(text: str) -> list[Ev]:
    """Read lines of `TIME THREAD B TEXT` and `TIME THREAD E`; T is the application, D the driver, A another."""
    found = []
    for line in text.strip().splitlines():
        at, thread, kind, *rest = line.split(None, 3)
        process = {"T": 1000, "D": 2000, "A": 3000}[thread[0]]
        found.append(Ev(int(at), process * 100 + int(thread[1:]), rest[0] if kind == "B" else None))
    return found


def lines(events: Iterable[Ev], flags: str = "...1", task: str = "task") -> list[bytes]:
    """Return the events as lines of ftrace."""
    found = []
    for event in events:
        mark = f"E|{event.tgid}" if event.text is None else f"B|{event.tgid}|{event.text}"
        time = f"{event.at // 10**6}.{event.at % 10**6:06}"
        head = f"{task:>16}-{event.tid:<5} ({event.tgid:5}) [003] {flags} {time}: "
        found.append(f"{head}tracing_mark_write: {mark}\n".encode("utf-8", "surrogateescape"))
    return found


def ftrace(events: Iterable[Ev], flags: str = "...1") -> bytes:
    """Return the events as ftrace text."""
    return b"# tracer: nop\n#\n" + b"".join(lines(events, flags))


def read(trace: str | bytes | list[Ev]) -> Analysis:
    """Analyse a trace: bytes, events, or a table of them."""
    if isinstance(trace, str):
        trace = table(trace)
    data = ftrace(trace) if isinstance(trace, list) else trace
    return analyse(open_trace(data))


def total(analysis: Analysis) -> Table:
    """Return the table of a whole trace."""
    return analysis.tables.total(analysis.tables)


def inclusive(analysis: Analysis) -> dict[str, int]:
    """Return the inclusive times in microseconds, by `LAYER_PHASE`."""
    return {f"{layer}_{phase}": ns // US for (layer, phase), ns in total(analysis).inclusive_ns.items()}


def own(analysis: Analysis) -> dict[str, int]:
    """Return the self times in microseconds, by `LAYER_PHASE`."""
    return {f"{layer}_{phase}": ns // US for (layer, phase), ns in total(analysis).self_ns.items()}


def codes(analysis: Analysis) -> list[str]:
    """Return the codes of the diagnostics."""
    return [one.code for one in analysis.diagnostics]


class Scope:
    """An open mark in the slow reading: what it counts as, and how it was begun."""

    def __init__(self, bucket: Bucket | None, subtracts: bool) -> None:
        self.bucket, self.subtracts, self.ended = bucket, subtracts, False


_FAMILY = {phase: "PE" if phase in ("PE", *SUBPHASES) else phase for phase in PHASES}
_MAIN = ("PI", "PP", "PC", "PE", "PT")
_HOLDERS = {"LA": (), "LR": ("LA",), "LI": ("LR",), "LC": ("LR", "LI"), "LD": ("LI",)}


def slow(events: Iterable[Ev], driver: int = 2000) -> tuple[dict[Bucket, int], dict[Bucket, int]]:
    """Return self and inclusive times in nanoseconds by looking at the whole stack of a thread at every event.

    It leaves executions out: the events must not start any.
    """
    stacks: dict[int, list[Scope]] = defaultdict(list)
    last: dict[int, int] = {}
    own: dict[Bucket, int] = defaultdict(int)
    whole: dict[Bucket, int] = defaultdict(int)
    ordered = sorted(events, key=lambda event: event.at)
    end = ordered[-1].at
    finals = [Ev(end, tid, "") for tid in {event.tid for event in ordered}]
    for event in [*ordered, *finals]:
        stack = stacks[event.tid]
        running, owner = clocks(stack)
        length = (event.at - last.get(event.tid, event.at)) * US
        last[event.tid] = event.at
        for bucket in running:
            whole[bucket] += length
        if owner is not None:
            own[owner] += length
        if event.text is None:
            if stack:
                stack.pop()
        else:
            stack.append(opened(stack, event, driver))
    return own, whole


def opened(stack: list[Scope], event: Ev, driver: int) -> Scope:
    mark = classify((event.text or "").encode()).in_driver(event.tgid == driver)
    if not mark.layer:
        return Scope(None, False)
    if mark.switch and stack and stack[-1].bucket:
        stack[-1].ended = True
    phase = mark.phase
    if phase == "PU":
        owner = clocks(stack)[1]
        if owner is None:
            return Scope(None, False)
        phase = owner[1]
    return Scope((mark.layer, phase), mark.subtract)


def clocks(stack: list[Scope]) -> tuple[set[Bucket], Bucket | None]:
    """Return the buckets that run, and the innermost."""
    live = [scope for scope in stack if scope.bucket and not scope.ended]
    running: list[set[Bucket]] = [set()]
    layers: list[str] = []
    for scope in live:
        assert scope.bucket is not None
        layer, phase = scope.bucket
        base = running[-1]
        if scope.subtracts:
            wanted = [layer] if layer in layers else list(_HOLDERS[layer])
            depths = [at + 1 for at, one in enumerate(layers) if one in wanted]
            base = running[max(depths)] if depths else set()
        if phase in _FAMILY and _FAMILY[phase] in _MAIN:
            base = {one for one in base if _FAMILY[one[1]] in (_FAMILY[phase], "PO", "PWU", "PBM")}
        running.append(base | {(layer, phase)} | ({(layer, "PE")} if phase in SUBPHASES else set()))
        layers.append(layer)
    return running[-1], live[-1].bucket if live else None


EXAMPLE = TESTDATA / "trace" / "benchmark.html"

SIMPLE = "10 T1 B [NN_LR_PP]p\n20 D1 B foreign\n30 T1 E\n40 D1 E"


def document(data: bytes) -> dict[str, object]:
    """Return all that is the same whatever the encoding."""
    found = trace_json(analyse(open_trace(data)), per_execution=True)
    for diagnostic in found["diagnostics"]:
        del diagnostic["location"]
    del found["trace"]["encoding"]
    return found


_TEXTS = [
    *(f"[NN_{layer}_{phase}]f" for layer in LAYERS for phase in (*PHASES, "PU") if (layer, phase) != ("LA", "PO")),
    *(f"[SW][NN_{layer}_{phase}]f" for layer in ("LR", "LC", "LD") for phase in ("PIO", "PTR", "PCO", "PE")),
    *(f"[SUB][NN_{layer}_{phase}]f" for layer in ("LA", "LR", "LI") for phase in ("PC", "PE", "PP")),
    "HIDL::IPreparedModel::execute::client", "AIDL::ndk::IDevice::prepareModel::client",
    "[NN_LU_PU]u", "[NN_LO_PO]o", "foreign", "[NN_LR_PX]unknown", "[NN_LR", "",
]  # fmt: skip

_CALL = "HIDL::IPreparedModel::execute::server"


@st.composite
def traces(draw: st.DrawFn) -> list[Ev]:
    """Draw events of a few threads, the last of them in a driver."""
    at, found = 0, []
    for _ in range(draw(st.integers(1, 60))):
        at += draw(st.integers(0, 5))
        tid = draw(st.sampled_from([100001, 100002, 200001]))
        ends = draw(st.integers(0, 9)) < 4
        found.append(Ev(at, tid, None if ends else draw(st.sampled_from([*_TEXTS, _CALL] if tid > 2e5 else _TEXTS))))
    return found


_EXECUTIONS = [
    "[NN_LA_PO]m", "[NN_LA_PWU]w", "[NN_LA_PBM]b", "[NN_LA_PE]e",
    *(f"[NN_LR_PE]ANeuralNetworksExecution_{name}"
      for name in ("startCompute", "compute", "startComputeWithDependencies")),
    "[NN_LR_PE]ANeuralNetworksEvent_wait", "HIDL::IExecutionCallback::notify::client", _CALL,
]  # fmt: skip


@st.composite
def executing(draw: st.DrawFn) -> list[Ev]:
    """Draw traces of the same kind with runs, phases and executions."""
    trace = draw(traces())
    texts = [draw(st.sampled_from(_EXECUTIONS)) if draw(st.booleans()) else event.text for event in trace]
    return [
        event if event.text is None else event._replace(text=text) for event, text in zip(trace, texts, strict=True)
    ]


def exported(data: bytes, target: str) -> bytes:
    trace = open_trace(data)
    parts = chrome_parts if target == "chrome" else perfetto_parts
    return b"".join(parts(trace, analyse(trace)))
