"""Operator-level traces: how long each operator ran, as three runtimes tell it."""
