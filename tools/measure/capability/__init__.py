"""Measuring which operators a device takes: what `python -m tools.measure.capabilities` is made of."""
