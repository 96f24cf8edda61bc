"""Hostile files, made by code: what no honest program writes, each with what it attacks.

`attacks()` has them all; tests/laws/test_attacks.py gives each to every command that reads such a file, and the fuzz
targets start from the small ones.
"""

from tests.kit.attacks.attack import EDIT, Attack
from tests.kit.attacks.documents import documents
from tests.kit.attacks.made import made
from tests.kit.attacks.models import models
from tests.kit.attacks.tables import tables
from tests.kit.attacks.traces import traces

__all__ = ["EDIT", "Attack", "attacks"]


def attacks() -> list[Attack]:
    """Return all attacks."""
    return [*models(), *made(), *tables(), *traces(), *documents()]
