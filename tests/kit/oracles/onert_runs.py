"""Run a model in onert: `TRACING_MODE=1 python -m tests.kit.oracles.onert_runs MODEL RUNS` leaves traces behind.

onert reads its settings from the environment, and writes `trace.chrome.json`, `trace.json` and `trace.table.md` into
the working directory when the session is closed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kit.oracles.nnfw import Session, fix_open_shapes
from tests.kit.oracles.onert import bind


def main(model: Path, runs: int) -> None:
    """Run the first subgraph `runs` times on the cpu backend."""
    session = Session()
    session("load_model_from_file", str(model).encode())
    session("set_available_backends", b"cpu")
    fix_open_shapes(session)
    session("prepare")
    bind(session, seed=0)
    for _ in range(runs):
        session("run")
    session("close_session")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
