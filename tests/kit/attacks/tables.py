"""Models whose structure is sound and whose metadata tables are hostile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from circletools.affinity.tables import AFFINITY_STAMP, AFFINITY_TABLE, DEVICE_TABLE
from circletools.edit.edit import ModelEdit
from circletools.metadata.stamp import STAMP
from circletools.model.model import open_model
from circletools.model.verify import DEBUG_METADATA
from circletools.origin.read import EXACT_TABLE
from circletools.origin.tables import EXECUTION_PLAN_TABLE, OP_TABLE, SOURCE_TABLE
from fuzz.tables import annotated
from tests.kit.attacks.attack import Attack, u32s

_ORIGINS = {"dump-origins": 3, "attribute": 3}
_AFFINITY = {"partition": 3, "export-affinity": 3}
_MANY = (1 << 31, (1 << 32) - 1)


def tables() -> list[Attack]:
    """Return all of them."""
    found = []
    for many in _MANY:
        found += [
            _table(f"sources-{many}", f"{many} sources in 8 bytes", {SOURCE_TABLE: u32s(many, 0)}, _ORIGINS),
            _table(
                f"source-long-{many}", f"a source name of {many} bytes", {SOURCE_TABLE: u32s(1, 0, many, 0)}, _ORIGINS
            ),
            _table(f"operators-{many}", f"{many} operators in 8 bytes", {OP_TABLE: u32s(many, 0)}, _ORIGINS),
            _table(f"origin-{many}", f"an operator from {many} sources", {OP_TABLE: u32s(1, 0, many, 0)}, _ORIGINS),
            _table(
                f"exact-{many}", f"exact tables of {many} subgraphs", {EXACT_TABLE: u32s(1, many, 0, 0)}, _ORIGINS
            ),
            _table(
                f"exact-long-{many}",
                f"an exact table of {many} bytes",
                {EXACT_TABLE: u32s(1, 1, 0, many, 0)},
                _ORIGINS,
            ),
            _table(
                f"exact-operators-{many}",
                f"an exact table of {many} operators",
                {EXACT_TABLE: u32s(1, 1, 0, 4, many)},
                _ORIGINS,
            ),
            _table(f"stamp-{many}", f"a stamp of {many} subgraphs", {STAMP: u32s(1, many, 0)}, _ORIGINS),
            _table(f"stamp-long-{many}", f"a stamp of {many} operators", {STAMP: u32s(1, 1, many, 0, 0)}, _ORIGINS),
            _table(f"devices-{many}", f"{many} devices in 8 bytes", {DEVICE_TABLE: u32s(many, 0)}, _AFFINITY),
            _table(
                f"affinity-{many}", f"the affinity of {many} subgraphs", {AFFINITY_TABLE: u32s(1, many, 0)}, _AFFINITY
            ),
            _table(
                f"affinity-long-{many}",
                f"the affinity of {many} operators",
                {AFFINITY_TABLE: u32s(1, 1, 0, many, 0)},
                _AFFINITY,
            ),
            _table(
                f"affinity-stamp-{many}",
                f"an affinity stamp of {many} operators",
                {AFFINITY_STAMP: u32s(1, 1, many, 0, 0)},
                _AFFINITY,
            ),
            _table(
                f"plan-{many}", f"an execution plan of {many} entries", {EXECUTION_PLAN_TABLE: u32s(many, 0, 1)}, {}
            ),
        ]
    return [*found, *_contents(), *_locations()]


def _contents() -> list[Attack]:
    far = u32s(1, 1, 0xFFFFFFFE, 0)
    return [
        _table(
            "tables-empty", "all tables with no byte in them", dict.fromkeys((SOURCE_TABLE, OP_TABLE), b""), _ORIGINS
        ),
        _table(
            "source-twice", "two sources of one id", {SOURCE_TABLE: u32s(2) + 2 * (u32s(1, 2) + b"a\0")}, _ORIGINS
        ),
        _table("source-unended", "a source name without a NUL", {SOURCE_TABLE: u32s(1, 0, 2) + b"ab"}, _ORIGINS),
        _table(
            "source-missing", "an operator from a source that is not there", {OP_TABLE: u32s(1, 0, 1, 99)}, _ORIGINS
        ),
        _table("operator-twice", "two entries of one operator", {OP_TABLE: u32s(2, 0, 1, 0, 0, 1, 0)}, _ORIGINS),
        _table(
            "operator-far",
            "origins of operator 2^32-1, unstamped",
            {OP_TABLE: u32s(1, 0xFFFFFFFF, 1, 0), STAMP: None, EXACT_TABLE: None},
            {"dump-origins": 1},
        ),
        _table(
            "exact-twice", "two exact tables of one subgraph", {EXACT_TABLE: u32s(1, 2) + 2 * u32s(0, 4, 0)}, _ORIGINS
        ),
        _table("exact-far", "an exact table of subgraph 2^32-1", {EXACT_TABLE: u32s(1, 1, 0xFFFFFFFF, 4, 0)}, {}),
        _table("device-missing", "an operator on a device that is not there", {DEVICE_TABLE: u32s(0)}, _AFFINITY),
        _table("affinity-far", "the affinity of subgraph 2^32-2", {AFFINITY_TABLE: far}, {"partition": 1}),
        _table(
            "affinity-twice",
            "two affinities of one subgraph",
            {AFFINITY_TABLE: u32s(1, 2) + 2 * u32s(0, 0)},
            _AFFINITY,
        ),
        _table(
            "device-commands",
            "a device named to command a shell or a terminal",
            {DEVICE_TABLE: u32s(2, 0, 25) + b"$(touch x)\n\x1b]0;x\x07'\"<\\>{}\0" + u32s(1, 4) + b"cpu\0"},
            {},
        ),
    ]


def _locations() -> list[Attack]:
    return [
        _table("locations-short", "debug metadata of three bytes", {DEBUG_METADATA: b"\1\2\3"}, {"structure": 0}),
        _table(
            "locations-self", "debug metadata whose root is itself", {DEBUG_METADATA: bytes(64)}, {"structure": 0}
        ),
        _table(
            "locations-cut", "debug metadata cut in half", {DEBUG_METADATA: _debug_metadata()[:300]}, {"structure": 0}
        ),
        _table(
            "locations-huge",
            "debug metadata with 2^32-1 attributes",
            {DEBUG_METADATA: _debug_metadata().replace(u32s(2), u32s(-1))},
            {"structure": 0},
        ),
    ]


def _debug_metadata() -> bytes:
    with open_model(annotated()) as model:
        return bytes(model.metadata_value(DEBUG_METADATA) or b"")


def _table(name: str, message: str, entries: Mapping[str, bytes | None], expect: Mapping[str, int]) -> Attack:
    sound = {"structure": 0, "inspect": 0, "metadata remove": 0, "compact": 0}
    return Attack(name, "tables", message, _with(entries), {**sound, **expect})


def _with(entries: Mapping[str, bytes | None]) -> Callable[[], bytes]:
    def make() -> bytes:
        with open_model(annotated()) as model:
            edit = ModelEdit(model)
            for name, value in entries.items():
                if value is None:
                    edit.remove_metadata(name)
                else:
                    edit.set_metadata(name, value)
            return edit.to_bytes()

    return make
