"""Operator-level traces: the time that each operator took, as reported by runtimes."""
