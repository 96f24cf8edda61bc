"""Tracking: carry origins across a tool that drops them, by comparing its input (BEFORE) with its output (AFTER)."""
