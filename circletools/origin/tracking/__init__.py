"""Tracking: carry origins across a tool that drops them, by comparing the models before and after it."""
