"""What a check reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about a model.

    `code` is stable; `location` is a path such as `subgraphs[0].operators[5]`.
    """

    code: str
    severity: Severity
    location: str
    message: str
