"""Make the trace of Perfetto's library in `testdata/trace/foreign/`, and its totals.

pip install perfetto
python testdata/generate_foreign_traces.py
"""

from __future__ import annotations

import json
import random
import zlib
from collections import defaultdict
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

FOLDER = Path(__file__).parent / "trace" / "foreign"


_CALLS = (
    (70, 70, "[NN_LA_PP]prepare", "[NN_LR_PP]ANeuralNetworksModel_addOperand"),
    (70, 71, "[NN_LR_PC]ANeuralNetworksCompilation_finish", "[NN_LI_PC]prepareModel"),
    (80, 80, "[NN_LC_PC]SampleDriver::prepareModel", ""),
    (70, 70, "[NN_LR_PE]ANeuralNetworksExecution_compute", "[NN_LC_PCO]optimized_ops::Conv"),
    (90, 90, "surfaceflinger", "onMessage"),
)


def kernel() -> bytes:
    """Write marks of the kernel on three CPUs, in bundles that overlap in time; half of them are compressed."""
    rng, t_ns = random.Random(0), 5_000_000_000  # noqa: S311 - no secret
    builder = TraceProtoBuilder()
    tree = builder.add_packet().process_tree
    for tgid, tid, *_ in _CALLS:
        tree.threads.add(tid=tid, tgid=tgid, name=f"thread {tid}")
    bundles = [TracePacket() for _ in range(6)]
    for cpu, packet in enumerate(bundles):
        packet.ftrace_events.cpu = cpu % 3
    for number in range(60):
        tgid, tid, *names = rng.choice(_CALLS)
        named = [name for name in names if name]
        for mark in (*(f"B|{tgid}|{name}\n" for name in named), *[f"E|{tgid}\n"] * len(named)):
            t_ns += rng.randrange(1, 1_000_000)
            event = bundles[number // 30 * 3 + rng.randrange(3)].ftrace_events.event.add(timestamp=t_ns, pid=tid)
            event.print.ip, event.print.buf = 1, mark
    packed = Trace(packet=bundles[3:]).SerializeToString()
    builder.add_packet().compressed_packets = zlib.compress(packed)
    return bytes(builder.serialize()) + Trace(packet=bundles[:3]).SerializeToString()


def totals(data: bytes) -> list[tuple[int, int, str, int, int]]:
    """Return thread, process, name, calls and nanoseconds of marks of the kernel, read with Perfetto's messages.

    Perfetto's trace_processor is no part of its package, which gets it from a server.
    """
    packets = list(Trace.FromString(data).packet)
    for packet in list(packets):
        if packet.HasField("compressed_packets"):
            packets += Trace.FromString(zlib.decompress(packet.compressed_packets)).packet
    marks = [(one.timestamp, one.pid, one.print.buf) for packet in packets for one in packet.ftrace_events.event]
    stacks: dict[int, list[tuple[int, str]]] = defaultdict(list)
    found: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    for t_ns, tid, mark in sorted(marks):
        kind, tgid, *name = mark.rstrip("\n").split("|")
        if kind == "B":
            stacks[tid].append((t_ns, *name))
        else:
            begun, begun_name = stacks[tid].pop()
            found[tid, int(tgid), begun_name].append(t_ns - begun)
    return [(*key, len(times), sum(times)) for key, times in sorted(found.items())]


if __name__ == "__main__":
    (FOLDER / "kernel.pftrace").write_bytes(kernel())
    rows = [json.dumps(row) for row in totals((FOLDER / "kernel.pftrace").read_bytes())]
    (FOLDER / "kernel.totals.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
