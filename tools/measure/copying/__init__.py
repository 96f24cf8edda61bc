"""The parts of `python -m tools.measure.copyops`, which measures the operators that copy a tensor."""
