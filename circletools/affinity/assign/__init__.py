"""Assigns a device to every operator by rules."""
