"""Exports of the affinity to other tools, a module for each: plain functions of a model and its affinity."""
