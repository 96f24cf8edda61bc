"""Edit finished models: extract parts, prune, rename, and change signatures, inputs and outputs.

    with ct.open("in.circle") as model, ct.edit(model) as edit:
        ct.surgery.rename(edit, ct.surgery.RenameRequest(inputs=("0=image",)))
        edit.save("out.circle")

These functions are available as `ct.surgery`.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
