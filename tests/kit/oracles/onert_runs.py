"""Run a model in onert: `TRACING_MODE=1 python -m tests.kit.oracles.onert_runs MODEL RUNS` leaves traces behind.

onert reads its settings from the environment, and writes `trace.chrome.json`, `trace.json` and `trace.table.md` into
the working directory when the session is closed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from circletools.runtimes.onert import fix_open_shapes
from circletools.runtimes.onert_c import Session
from tests.kit.oracles.onert import bind


def main(model: Path, runs: int) -> None:
    """Run the first subgraph `runs` times on the cpu backend."""
    session = Session()
    session.load(model)
    session.use_backends("cpu")
    fix_open_shapes(session)
    session.prepare()
    bind(session, seed=0)
    for _ in range(runs):
        session.run()
    session.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
