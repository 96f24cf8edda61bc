"""Comparison of the contents of two models."""
