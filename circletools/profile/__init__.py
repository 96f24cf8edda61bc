"""Attribute measured time to a model, and compare measurements."""
