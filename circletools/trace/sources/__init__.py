"""Traces of every encoding as one stream of begin and end events.

    trace = open_trace("trace.html")
    for event in events(trace):
        print(event.t_ns, event.tid, event.tgid, event.kind, event.text, trace.place(event.where))

Encodings are recognized by their first bytes: systrace HTML; ftrace text as written by the kernel, `trace_pipe`,
`atrace` and `trace-cmd report`; Perfetto protobuf. Each may be gzipped; text may have the compression of `atrace -z`.
"""

from circletools.trace.sources.batch import BEGIN, END, Batch, Event, Fault, Trace
from circletools.trace.sources.open import events, open_trace

__all__ = ["BEGIN", "END", "Batch", "Event", "Fault", "Trace", "events", "open_trace"]
