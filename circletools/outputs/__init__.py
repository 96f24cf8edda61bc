"""One distinct, computed tensor for every output."""

from circletools.outputs.analysis import OddKind, OddOutput, choose_subgraphs, odd_outputs, output_findings
from circletools.outputs.copyops import CopyChoice, CopyOperator, choose_copy_operator
from circletools.outputs.rewrite import fix_outputs

__all__ = [
    "CopyChoice",
    "CopyOperator",
    "OddKind",
    "OddOutput",
    "choose_copy_operator",
    "choose_subgraphs",
    "fix_outputs",
    "odd_outputs",
    "output_findings",
]
