"""Turn a request into a plan: devices, partitions, and their costs.

`ct.plan` makes a plan; `ct.planning` contains related functions: costs from files, traces and measurements.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
