"""Exports of the affinity to other tools, one module each: plain functions of a model and its affinity."""
