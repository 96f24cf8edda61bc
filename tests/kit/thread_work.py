"""Does many things with many models, and prints a digest for each: `python -m tests.kit.thread_work THREADS`.

The process is new, so that also what is loaded once is loaded by several threads at the same time.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from circletools.check import check
from circletools.edit.compact import compact
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.inspection import inspect_model
from circletools.model.model import open_model
from circletools.origin.embed import embed, follow
from circletools.origin.names import collect_sources
from circletools.outputs.analysis import choose_subgraphs
from circletools.outputs.fixing import fix_outputs
from circletools.render.trace_slices import chrome_parts
from circletools.render.traces import trace_json
from circletools.trace.nnapi.analysis import analyse
from circletools.trace.sources import open_trace
from tests.kit.affinity_support import with_affinity
from tests.kit.support import TESTDATA, own_models


def embedded(path: Path, target: Path) -> bytes:
    with open_model(path) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model))
        edit.save(target)
    return target.read_bytes()


def fixed(path: Path, target: Path) -> bytes:
    with open_model(path) as model:
        edit = ModelEdit(model)
        follow(edit)
        fix_outputs(edit, choose_subgraphs(model_graph(model), "all"))
        edit.save(target)
    return target.read_bytes()


def annotated(path: Path, _: Path) -> bytes:
    return with_affinity(path.read_bytes(), ["npu", "gpu", "cpu"], "op:*D=npu", "index:1,3=gpu", default="cpu")


def compacted(path: Path, target: Path) -> bytes:
    with open_model(path) as model:
        compact(model, target)
    return target.read_bytes()


def examined(path: Path, _: Path) -> bytes:
    with open_model(path) as model:
        return repr((check(model), inspect_model(model))).encode()


def trace(path: Path, _: Path) -> bytes:
    opened = open_trace(path)
    analysis = analyse(opened)
    document = trace_json(analysis, None, per_execution=False, stream=False)
    return b"".join(chrome_parts(opened, analysis)) + json.dumps(document, default=list).encode()


WORK: tuple[Callable[[Path, Path], bytes], ...] = (embedded, fixed, annotated, compacted, examined)


def main(threads: int) -> None:
    """Print name and digest of every job, in one order."""
    sys.setswitchinterval(1e-6)
    jobs = [(work, path) for path in own_models()[::2] for work in WORK]
    jobs += [(trace, TESTDATA / "trace/benchmark.html")] * 4
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(threads) as pool:

        def run(number: int) -> str:
            work, path = jobs[number]
            try:
                result = work(path, Path(folder) / f"{number}{path.suffix}")
            except CircleToolsError as error:
                result = repr(error).encode()
            return f"{work.__name__} {path.name} {hashlib.sha256(result).hexdigest()}"

        print(*pool.map(run, range(len(jobs))), sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
