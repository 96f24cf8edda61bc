"""Origins: which source nodes an operator came from, kept in metadata tables that the ONE compiler knows.

with ct.open("in.circle") as model, ct.edit(model) as edit:
    ct.origins.embed(edit)
    edit.save("out.circle")

with ct.open("out.circle") as model:
    origins = ct.origins.read(model)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.metadata.stamp import Freshness
    from circletools.origin.describe import OriginTable, Selection, describe
    from circletools.origin.embed import embed, strip
    from circletools.origin.exchange import parse_origins as parse
    from circletools.origin.extract import extract
    from circletools.origin.names import NameSource
    from circletools.origin.names import collect_sources as collect
    from circletools.origin.read import Origins, check_freshness
    from circletools.origin.read import read_origins as read
    from circletools.origin.tags import tag, untag

__all__ = [
    "Freshness",
    "NameSource",
    "OriginTable",
    "Origins",
    "Selection",
    "check_freshness",
    "collect",
    "describe",
    "embed",
    "extract",
    "parse",
    "read",
    "strip",
    "tag",
    "untag",
]

_PLACES = {
    "Freshness": "circletools.metadata.stamp",
    "NameSource": "circletools.origin.names",
    "OriginTable": "circletools.origin.describe",
    "Origins": "circletools.origin.read",
    "Selection": "circletools.origin.describe",
    "check_freshness": "circletools.origin.read",
    "collect": "circletools.origin.names:collect_sources",
    "describe": "circletools.origin.describe",
    "embed": "circletools.origin.embed",
    "extract": "circletools.origin.extract",
    "parse": "circletools.origin.exchange:parse_origins",
    "read": "circletools.origin.read:read_origins",
    "strip": "circletools.origin.embed",
    "tag": "circletools.origin.tags",
    "untag": "circletools.origin.tags",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
