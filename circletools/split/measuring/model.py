"""What is known of a model on its devices: the times of operators, launches and copies, made true by measuring."""

from __future__ import annotations
