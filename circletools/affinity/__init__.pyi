from circletools.affinity.capability.file import load_capability as load_capability
from circletools.affinity.capability.file import shipped_devices
from circletools.affinity.capability.table import Capability as Capability
from circletools.affinity.capability.table import Refusal as Refusal
from circletools.affinity.capability.table import refusals as refusals
from circletools.affinity.exports.export import Export as Export
from circletools.affinity.exports.export import Target as Target
from circletools.affinity.exports.export import export as export
from circletools.affinity.solvers.groups import Partition as Partition
from circletools.affinity.store import annotate as annotate
from circletools.affinity.store import follow as follow
from circletools.affinity.store import strip as strip
from circletools.affinity.tables import Affinity as Affinity
from circletools.affinity.tables import SubgraphAffinity as SubgraphAffinity
from circletools.affinity.tables import affinity_findings, read_affinity
from circletools.affinity.tables import check_freshness as check_freshness

check = affinity_findings
read = read_affinity
shipped = shipped_devices
