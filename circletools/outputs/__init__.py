"""Give every output its own tensor.

    with ct.open("in.circle") as model, ct.edit(model) as edit:
        ct.outputs.fix(edit)
        edit.save("out.circle")

These functions are available as `ct.outputs`.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
