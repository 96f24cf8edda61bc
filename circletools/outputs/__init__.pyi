from circletools.outputs.analysis import AliasedOutput as AliasedOutput
from circletools.outputs.analysis import AliasKind as AliasKind
from circletools.outputs.analysis import aliased_outputs
from circletools.outputs.copyops import CopyChoice as CopyChoice
from circletools.outputs.fixing import fix_outputs

find = aliased_outputs
fix = fix_outputs
