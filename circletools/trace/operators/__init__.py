"""Operator-level traces: how long each operator ran, as runtimes report it."""
