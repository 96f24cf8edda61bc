"""A model in parts, one for each device subgraph: writing them, and checking that together they are the model."""

from circletools.split.plan import SplitPlan, plan_split
from circletools.split.verify import SplitFiles, open_split, verify_split
from circletools.split.write import Split, split

__all__ = ["Split", "SplitFiles", "SplitPlan", "open_split", "plan_split", "split", "verify_split"]
