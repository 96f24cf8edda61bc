"""Tracking: origins across a tool that does not keep them, from the model before and after it."""
