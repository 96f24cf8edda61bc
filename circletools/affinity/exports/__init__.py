"""Affinity in the words of those who act on it, a module for each: plain functions of a model and its affinity."""
