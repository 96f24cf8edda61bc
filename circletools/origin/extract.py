"""The tables of origins as they are in a model."""

from __future__ import annotations

from circletools.model.model import Model
from circletools.origin.embed import ORIGIN_ENTRIES
from circletools.origin.tables import EXECUTION_PLAN_TABLE, OP_TABLE, SOURCE_TABLE


def extract(model: Model) -> dict[str, bytes]:
    """Return the metadata entries about origins by their name, with the execution plan; nothing without origins.

    The values are not decoded: those of malformed tables are returned too.
    """
    tables = {name: model.metadata_value(name) for name in (*ORIGIN_ENTRIES, EXECUTION_PLAN_TABLE)}
    if tables[SOURCE_TABLE] is None and tables[OP_TABLE] is None:
        return {}
    return {name: bytes(value) for name, value in tables.items() if value is not None}
