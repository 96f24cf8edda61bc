"""Measuring which operators a device takes: what `python -m benchmarks.capabilities` is made of."""
