"""Origins: the source nodes that an operator came from, stored in metadata tables of the ONE compiler.

with ct.open("in.circle") as model, ct.edit(model) as edit:
    ct.origins.embed(edit)
    edit.save("out.circle")

with ct.open("out.circle") as model:
    origins = ct.origins.read(model)
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
