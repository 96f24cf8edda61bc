"""Tracking: origins through a tool that knew nothing of them, from the model before and after it."""
