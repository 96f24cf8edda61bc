"""onert on its cpu backend, or on those in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from circletools.storage.platform import read_at
from tests.kit.oracles import nnfw
from tests.kit.oracles.inputs import make_input
from tests.kit.oracles.nnfw import Bound, Session, StatusError, fix_open_shapes, results
from tests.kit.oracles.outcome import Outcome, Stage, Value


def run(model: Path, seed: int, enter: Callable[[str], None]) -> Outcome:
    """Run the first subgraph; this version of onert knows nothing of signatures."""
    stage: Stage = "load"
    session = Session()
    try:
        enter(stage)
        session("load_model_from_file", str(model).encode())
        if "BACKENDS" not in os.environ:
            session("set_available_backends", b"cpu")
        stage = "prepare"
        enter(stage)
        fix_open_shapes(session)
        session("prepare")
        stage = "run"
        enter(stage)
        outcome = Outcome("onert", "ok", "", run_prepared(session, seed))
    except StatusError as error:
        if error.too_small:
            raise  # a limit of this module must not pass for the behavior of the model
        outcome = Outcome("onert", stage, f"{error}: {_printed()}".replace(str(model), "<model>"))
    enter("close")
    session("close_session")
    return outcome


def run_prepared(session: Session, seed: int) -> tuple[Value, ...]:
    """Run a session that is prepared, once; return its outputs."""
    buffers = bind(session, seed)
    session("run")
    # The C interface has no names of outputs, only positions.
    return tuple(
        (str(position), array.dtype.name, array.shape, array.tobytes())
        for position, array in enumerate(results(session, buffers))
    )


def bind(session: Session, seed: int) -> list[Bound]:
    """Bind inputs, and outputs that are large enough; return the buffers of these."""
    return nnfw.bind(session, partial(make_input, seed))


def _printed() -> str:
    """Return what the runtime printed: its statuses say nothing, the reason goes to stderr only."""
    return read_at(2, 1 << 16, 0).decode(errors="replace").strip()
