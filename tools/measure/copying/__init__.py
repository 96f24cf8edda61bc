"""Measuring which operator copies a tensor: what `python -m tools.measure.copyops` is made of."""
