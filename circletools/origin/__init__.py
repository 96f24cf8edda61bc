"""Origins: which source nodes an operator came from, kept in metadata tables that the ONE compiler knows."""

from circletools.metadata.stamp import Freshness, Stamp, check_stamp
from circletools.origin.algebra import Origin, inherit, single, union
from circletools.origin.embed import embed, strip
from circletools.origin.names import NameSource, collect_sources
from circletools.origin.read import Origins, read_origins
from circletools.origin.remap import follow
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    decode_execution_plan,
    decode_op_table,
    decode_source_table,
    encode_op_table,
    encode_source_table,
)

__all__ = [
    "EXECUTION_PLAN_TABLE",
    "OP_TABLE",
    "SOURCE_TABLE",
    "Freshness",
    "NameSource",
    "Origin",
    "Origins",
    "Stamp",
    "check_stamp",
    "collect_sources",
    "decode_execution_plan",
    "decode_op_table",
    "decode_source_table",
    "embed",
    "encode_op_table",
    "encode_source_table",
    "follow",
    "inherit",
    "read_origins",
    "single",
    "strip",
    "union",
]
