"""The parts of `python -m tools.measure.capabilities`, which measures the operators that a device accepts."""
