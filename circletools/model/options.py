"""Options of operators, as numbers."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Tables
from circletools.model.model import Model


def options_of(operators: Tables, name: str, model: Model) -> NDArray[np.float64]:
    """Return an option of each operator, 0 where its options table has none of that name."""
    values = np.zeros(len(operators))
    for field in ("builtin_options", "builtin_options_2"):
        if field not in operators.type.by_name:
            continue  # Circle has one union only
        members = operators.union_codes(operators.field(field))
        targets = operators.targets(field)
        for member in np.unique(members[targets != 0]).tolist():
            table_name = model.schema.unions[str(operators.field(field).target)].get(member)
            table = model.schema.tables.get(table_name or "")
            option = table.by_name.get(name) if table else None
            if table is not None and option is not None and option.kind in {"scalar", "string"}:
                rows = np.flatnonzero((members == member) & (targets != 0))
                chosen = Tables(operators.wire, table, targets[rows])
                is_text = option.kind == "string"
                values[rows] = [*map(text_number, chosen.strings(name))] if is_text else chosen.scalars(name)
    return values


def text_number(text: bytes) -> float:
    """Return the number that stands for the text of an option; none is 0."""
    return float(int.from_bytes(blake2b(text, digest_size=6).digest(), "big")) if text else 0.0
