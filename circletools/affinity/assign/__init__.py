"""Assign a device to every operator by rules."""
