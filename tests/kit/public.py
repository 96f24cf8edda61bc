"""Public models, where a checkout has them beside it."""

from __future__ import annotations

from pathlib import Path

SHARED = Path(__file__).parents[3] / "shared"
"""The folder of public material beside the repository; most checkouts have none."""


def public_models() -> list[Path]:
    """Return the models in `../shared/models` of the repository; none is also an answer."""
    folder = SHARED / "models"
    return sorted(path for kind in ("tflite", "circle") for path in folder.glob(f"{kind}/*.{kind}"))
