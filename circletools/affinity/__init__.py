"""Affinity: the device that runs each operator, and the resulting partitions.

affinity = ct.affinity.read(model)          # the affinity in a model
ct.affinity.annotate(edit, plan)            # write the affinity of a plan
ct.affinity.check(model)                    # the problems of an affinity
ct.affinity.export(model, "openvino")       # convert it for another tool
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
