"""Runtimes and compilers that are installed, each asked in a process of its own.

What starts processes is imported when it is first asked for: most commands start none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.runtimes.operators import Operators, located
    from circletools.runtimes.protocol import Placed, Verdict
    from circletools.runtimes.worker import Worker

__all__ = ["Operators", "Placed", "Verdict", "Worker", "located"]

_PLACES = {
    "Operators": "circletools.runtimes.operators",
    "Placed": "circletools.runtimes.protocol",
    "Verdict": "circletools.runtimes.protocol",
    "Worker": "circletools.runtimes.worker",
    "located": "circletools.runtimes.operators",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
