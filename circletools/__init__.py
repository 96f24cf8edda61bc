"""Read, annotate and repair TFLite and Circle models without a compiler.

    from circletools import open_model

    with open_model("in.circle") as model:
        for operator in model.subgraphs[0].operators:
            print(operator.index, operator.code.name)

The names in `__all__` are the stable surface; `docs/` describes them.
"""

from circletools.errors import CircleToolsError, EditError, InvalidInputError, UsageError

__all__ = [
    "CircleToolsError",
    "EditError",
    "InvalidInputError",
    "UsageError",
    "__version__",
    "open_model",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the model layer (and numpy) on first use, so that `import circletools` stays cheap."""
    if name == "open_model":
        from circletools.model import open_model  # noqa: PLC0415

        return open_model
    raise AttributeError(f"module 'circletools' has no attribute {name!r}")
