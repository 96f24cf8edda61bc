"""Fuzzing: one target for each surface that reads what others wrote. `python -m fuzz.run` looks for inputs; see run.

A target takes bytes and returns, or raises CircleToolsError. Everything else is a finding.
"""
