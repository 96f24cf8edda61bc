"""From a request to a plan: devices, partitions, and what they cost.

`ct.plan` makes a plan; `ct.planning` has what stands around it: costs from files, traces and measurements.
"""

from circletools.lazy import face

__getattr__, __dir__, __all__ = face(__name__)
