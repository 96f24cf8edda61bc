"""Affinity: which device runs each operator, and the resulting partitions.

affinity = ct.affinity.read(model)          # what is in a model
ct.affinity.annotate(edit, plan)            # write a plan, or an affinity
ct.affinity.check(model)                    # findings: what is wrong with it
ct.affinity.export(model, "openvino")       # for another tool
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
