"""Fuzzing: one target for each function that reads untrusted input. `python -m fuzz.run` searches for such inputs.

A target reads bytes, and returns or raises CircleToolsError. Any other outcome is a finding.
"""
