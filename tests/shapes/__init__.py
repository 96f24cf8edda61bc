"""Shapes that are set."""
