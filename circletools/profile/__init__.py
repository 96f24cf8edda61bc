"""Attribute measured times to a model, and compare measurements."""
