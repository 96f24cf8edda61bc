"""The measured table of TFLite runtimes (table.json): the operators that each resolves, oldest runtime first.

`tools/measure/requirements.py` makes the table by testing the runtimes in the package index: `tflite-runtime` up to
2.14, and `ai-edge-litert`, whose numbering restarts from 1.0. A newer runtime supports everything that an older one
does, so the index of the first runtime is enough, except for a feature that a later release lost (`early`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from circletools.errors import UnknownNameError
from circletools.graph.graph import Graph, ModelGraph
from circletools.storage.documents import packaged
from circletools.wording import suggestion

NEVER = 1 << 30
"""The index for a feature that no runtime supports."""
_NAMES = {"tflite": "TFLite", "litert": "LiteRT"}
_WANTED = re.compile(r"(?:ai-edge-)?(tflite|litert)(?:-runtime)?-(\d+(?:\.\d+){0,2})")


@dataclass(frozen=True, slots=True)
class RuntimeTable:
    """The capabilities of runtimes. `runtimes` are their names, such as litert-2.1.6, oldest first.

    `types` and `features` hold the index of the first runtime that supports each, if any does; `early` holds indices
    of older runtimes that support a feature, and `wrong` of those that load it, but compute wrong values. `operators`
    holds the lowest version of each code and its highest version in each runtime; `custom` holds the custom codes
    that all runtimes resolve.
    """

    runtimes: tuple[str, ...]
    operators: Mapping[str, tuple[int, tuple[int, ...]]]
    types: Mapping[str, int]
    features: Mapping[str, int]
    early: Mapping[str, Sequence[int]]
    wrong: Mapping[str, Sequence[int]]
    custom: frozenset[str]

    def first_for_operator(self, code: str, version: int) -> int:
        """Return the index of the first runtime that resolves a version of an operator code, or NEVER."""
        if code.startswith("CUSTOM:"):
            return 0 if version == 1 and code.removeprefix("CUSTOM:") in self.custom else NEVER
        highest = self.operators.get(code, (1, (0,) * len(self.runtimes)))[1]
        return next((at for at, most in enumerate(highest) if self.lowest(code) <= version <= most), NEVER)

    def lowest(self, code: str) -> int:
        """Return the lowest version of an operator code."""
        return self.operators.get(code, (1, ()))[0]

    def name_of(self, first: int) -> str | None:
        """Return the name of the runtime with this index, or None for NEVER."""
        return None if first == NEVER else self.runtimes[first]

    def index_of(self, wanted: str) -> int:
        """Return the index of a runtime by name; `litert-2.1` means the first 2.1.x. Raises UsageError."""
        match = _WANTED.fullmatch(wanted.strip().lower())
        if match:
            for at, name in enumerate(self.runtimes):
                if f"{name}.".startswith(f"{match[1]}-{match[2]}."):
                    return at
        raise UnknownNameError(f"there is no data for the runtime {wanted!r}", hint=suggestion(wanted, self.runtimes))


def title(runtime: str) -> str:
    """Return the display name of a runtime, as in `LiteRT 1.4.0`."""
    name, version = runtime.split("-")
    return f"{_NAMES[name]} {version}"


@cache
def runtime_table() -> RuntimeTable:
    """Return the built-in table."""
    raw = packaged(__package__, "table.json")
    count = len(raw["runtimes"])
    return RuntimeTable(
        tuple(raw["runtimes"]),
        {
            code: (lowest, tuple(highest) if isinstance(highest, list) else (highest,) * count)
            for code, (lowest, highest) in raw["operators"].items()
        },
        raw["types"],
        raw["features"],
        raw["early"],
        raw["wrong"],
        frozenset(raw["custom"]),
    )


def measured() -> list[str]:
    """Return the releases that `requires` knows, oldest first.

    >>> "litert-1.4.0" in ct.checks.releases()
    True
    """
    return list(runtime_table().runtimes)


# --- the tensor types and format features in a model ----------------------------------------------------------

OUTSIDE, BLOCKWISE = "data outside the flatbuffer", "blockwise quantization"
ELSEWHERE = "values in another file (CompiledModel)"
_VERSION = 3


class Feature(NamedTuple):
    """A tensor type or feature, the number of tables with it, and the index of the first runtime that supports it."""

    kind: Literal["type", "feature"]
    what: str
    number: int
    first: int


def features(model: ModelGraph, table: RuntimeTable) -> Iterator[Feature]:
    """Yield the tensor types and the format features of a model."""
    names = model.source.schema.enums["TensorType"]
    types, counts = np.unique(model.source.tensor_columns.types, return_counts=True)
    for number, count in zip(types.tolist(), counts.tolist(), strict=True):
        name = names.get(number, f"UNKNOWN:{number}")
        yield Feature("type", f"{name} tensors", count, table.types.get(name, NEVER))
    options = [graph.operators.tables.scalars("large_custom_options_offset") for graph in model.graphs]
    others = [graph.values.tables.scalars("external_buffer") for graph in model.graphs]
    found = {
        OUTSIDE: sum(int(np.count_nonzero(offsets > 1)) for offsets in (model.source.buffers.offsets, *options)),
        BLOCKWISE: sum(map(_blockwise, model.graphs)),
        ELSEWHERE: sum(map(int, map(np.count_nonzero, others))),
        f"schema version {model.source.version}": int(model.source.version != _VERSION),
        "a model without subgraphs": int(not model.graphs),
        "a model without buffers": int(not len(model.source.buffers)),
    }
    for what, count in found.items():
        if count:
            yield Feature("feature", what, count, table.features.get(what, NEVER))


def _blockwise(graph: Graph) -> int:
    tables, _ = graph.values.quantization
    members = graph.values.model.schema.unions["QuantizationDetails"]
    wanted = [number for number, name in members.items() if name == "BlockwiseQuantization"]
    return int(np.isin(tables.scalars("details_type"), wanted).sum())
