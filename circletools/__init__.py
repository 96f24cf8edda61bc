"""Inspect, diagnose, repair and annotate TFLite and Circle model files.

    import circletools as ct

    with ct.open("in.circle") as model:
        for operator in model.subgraphs[0].operators:
            print(operator.index, operator.code.name)

The stable API consists of the names in `__all__` and in the `__all__` of each module listed there.
"""

from circletools.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
