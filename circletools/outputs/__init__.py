"""Outputs with a tensor of their own.

    with ct.open("in.circle") as model, ct.edit(model) as edit:
        ct.outputs.fix(edit)
        edit.save("out.circle")

`ct.outputs` has what is here.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
