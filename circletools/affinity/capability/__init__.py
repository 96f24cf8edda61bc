"""Capability tables: how they are read, and how operators are matched against them."""
