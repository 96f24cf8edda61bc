"""Outputs with a tensor of their own.

    with ct.open("in.circle") as model, ct.edit(model) as edit:
        ct.outputs.fix(edit)
        edit.save("out.circle")

`ct.outputs` has what is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.outputs.analysis import AliasedOutput, AliasKind
    from circletools.outputs.analysis import aliased_outputs as find
    from circletools.outputs.copyops import CopyChoice
    from circletools.outputs.fixing import fix_outputs as fix

__all__ = ["AliasKind", "AliasedOutput", "CopyChoice", "find", "fix"]

_PLACES = {
    "AliasKind": "circletools.outputs.analysis",
    "AliasedOutput": "circletools.outputs.analysis",
    "CopyChoice": "circletools.outputs.copyops",
    "find": "circletools.outputs.analysis:aliased_outputs",
    "fix": "circletools.outputs.fixing:fix_outputs",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
