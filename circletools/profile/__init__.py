"""Measured time joined with a model, and compared."""
