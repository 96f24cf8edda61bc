"""The command inspect: what is in a model."""

from __future__ import annotations

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as
from .parameters import Input, Json


def inspect(source: Input, json: Json = False) -> None:
    """Show format, sizes, operators, signatures and metadata."""
    with reading(source) as model:
        found = ct.inspect(model)
    show_as("json" if json else "text", found, text=ct.render.inspection_text, json=ct.render.inspection_json)
