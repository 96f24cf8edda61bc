"""Exports of the affinity to other tools: functions of a model and its affinity."""
