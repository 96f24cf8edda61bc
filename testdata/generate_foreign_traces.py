"""Make the traces of ONNX Runtime and Perfetto's library in `testdata/trace/foreign/`, and totals of the latter.

    pip install onnxruntime onnx perfetto
    python testdata/generate_foreign_traces.py

Times of ONNX Runtime are measured, so they are new ones each time.
"""

from __future__ import annotations

import json
import random
import tempfile
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession, SessionOptions
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

FOLDER = Path(__file__).parent / "trace" / "foreign"


def onnxruntime() -> bytes:
    """Run a small graph with a branch three times; the nodes of the branch are a graph of their own."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w0", (8, 3, 3, 3)), ("w1", (8, 10)))
    ]
    yes = helper.make_tensor_value_info("t", TensorProto.FLOAT, None)
    no = helper.make_tensor_value_info("e", TensorProto.FLOAT, None)
    then = helper.make_graph([helper.make_node("Softmax", ["m"], ["t"], name="soft")], "then", [], [yes])
    other = helper.make_graph([helper.make_node("Neg", ["m"], ["e"], name="negated")], "other", [], [no])
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "w1"], ["m"], name="matmul"),
        helper.make_node("If", ["if"], ["y"], name="branch", then_branch=then, else_branch=other),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32]),
        helper.make_tensor_value_info("if", TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    with tempfile.TemporaryDirectory() as folder:
        options = SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, f"{folder}/p"
        session = InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for branch in (True, False, True):
            session.run(None, {"x": np.zeros((1, 3, 32, 32), np.float32), "if": np.array(branch)})
        return Path(session.end_profiling()).read_bytes()


def perfetto() -> bytes:
    """Write slices of two threads, with names that are interned and times that count from the one before."""
    builder = TraceProtoBuilder()
    for uuid, tid in ((1, 70), (2, 71)):
        packet = builder.add_packet()
        packet.track_descriptor.uuid = uuid
        packet.track_descriptor.thread.pid, packet.track_descriptor.thread.tid = 70, tid
        packet.track_descriptor.thread.thread_name = f"thread {tid}"
    names = ("[NN_LA_PO]app", "[NN_LR_PE]ANeuralNetworksExecution_compute", "[NN_LC_PCO]worker", "other")
    packet = builder.add_packet()
    packet.timestamp, packet.trusted_packet_sequence_id, packet.sequence_flags = 0, 5, 1
    for iid, name in enumerate(names, 1):
        packet.interned_data.event_names.add(iid=iid, name=name)
    packet.trace_packet_defaults.timestamp_clock_id = 64
    packet.trace_packet_defaults.track_event_defaults.track_uuid = 1
    clock = packet.clock_snapshot.clocks.add(clock_id=64, timestamp=1000)
    clock.is_incremental, clock.unit_multiplier_ns = True, 1000
    for after, track, name in (
        (0, 1, 1),
        (10, 1, 2),
        (5, 2, 3),
        (20, 2, 0),
        (5, 1, 0),
        (2, 1, 4),
        (3, 1, 0),
        (5, 1, 0),
    ):
        packet = builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id, packet.sequence_flags = after, 5, 2
        packet.track_event.type = TrackEvent.TYPE_SLICE_BEGIN if name else TrackEvent.TYPE_SLICE_END
        if name:
            packet.track_event.name_iid = name
        if track != 1:
            packet.track_event.track_uuid = track
    return bytes(builder.serialize())


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
    (FOLDER / "onnxruntime.json").write_bytes(onnxruntime())
    (FOLDER / "slices.pftrace").write_bytes(perfetto())
    (FOLDER / "kernel.pftrace").write_bytes(kernel())
    rows = [json.dumps(row) for row in totals((FOLDER / "kernel.pftrace").read_bytes())]
    (FOLDER / "kernel.totals.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
