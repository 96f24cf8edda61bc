"""Affinity: which device runs each operator, and the partitions that follow.

affinity = ct.affinity.read(model)          # what is in a model
ct.affinity.annotate(edit, plan)            # write a plan, or an affinity
ct.affinity.check(model)                    # findings: what is wrong with it
ct.affinity.export(model, "openvino")       # for another tool
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.affinity.capability.file import load_capability
    from circletools.affinity.capability.file import shipped_devices as shipped
    from circletools.affinity.capability.table import Capability, Refusal, refusals
    from circletools.affinity.exports.export import Export, export
    from circletools.affinity.findings import affinity_findings as check
    from circletools.affinity.partition.partitions import Partition
    from circletools.affinity.read import Affinity, check_freshness
    from circletools.affinity.read import read_affinity as read
    from circletools.affinity.store import annotate, follow, strip
    from circletools.affinity.tables import SubgraphAffinity

__all__ = [
    "Affinity",
    "Capability",
    "Export",
    "Partition",
    "Refusal",
    "SubgraphAffinity",
    "annotate",
    "check",
    "check_freshness",
    "export",
    "follow",
    "load_capability",
    "read",
    "refusals",
    "shipped",
    "strip",
]

_PLACES = {
    "Affinity": "circletools.affinity.read",
    "Capability": "circletools.affinity.capability.table",
    "Export": "circletools.affinity.exports.export",
    "Partition": "circletools.affinity.partition.partitions",
    "Refusal": "circletools.affinity.capability.table",
    "SubgraphAffinity": "circletools.affinity.tables",
    "annotate": "circletools.affinity.store",
    "check": "circletools.affinity.findings:affinity_findings",
    "check_freshness": "circletools.affinity.read",
    "export": "circletools.affinity.exports.export",
    "follow": "circletools.affinity.store",
    "load_capability": "circletools.affinity.capability.file",
    "read": "circletools.affinity.read:read_affinity",
    "refusals": "circletools.affinity.capability.table",
    "shipped": "circletools.affinity.capability.file:shipped_devices",
    "strip": "circletools.affinity.store",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
