"""Cutting finished models: a part as a model, only what is used, other names, signatures, inputs and outputs.

    with ct.open("in.circle") as model, ct.edit(model) as edit:
        ct.surgery.rename(edit, ct.surgery.RenameRequest(inputs=("0=image",)))
        edit.save("out.circle")

`ct.surgery` has what is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.surgery.ends import SignatureRequest, expose, reorder, sign
    from circletools.surgery.extract import ExtractRequest, extract
    from circletools.surgery.prune import prune
    from circletools.surgery.rename import RenameRequest, rename

__all__ = [
    "ExtractRequest",
    "RenameRequest",
    "SignatureRequest",
    "expose",
    "extract",
    "prune",
    "rename",
    "reorder",
    "sign",
]

_PLACES = {
    "ExtractRequest": "circletools.surgery.extract",
    "RenameRequest": "circletools.surgery.rename",
    "SignatureRequest": "circletools.surgery.ends",
    "expose": "circletools.surgery.ends",
    "extract": "circletools.surgery.extract",
    "prune": "circletools.surgery.prune",
    "rename": "circletools.surgery.rename",
    "reorder": "circletools.surgery.ends",
    "sign": "circletools.surgery.ends",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
