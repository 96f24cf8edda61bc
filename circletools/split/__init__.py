"""A model for each device subgraph, how they are connected, and whether they are together what was split."""

from circletools.split.plan import SplitPlan, plan_split
from circletools.split.verify import SplitFiles, open_split, verify_split
from circletools.split.write import Split, split

__all__ = ["Split", "SplitFiles", "SplitPlan", "open_split", "plan_split", "split", "verify_split"]
