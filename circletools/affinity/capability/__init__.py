"""Capability tables: reading them, and matching operators against them."""
