"""Measuring parts and whole models on their devices, and costs that follow from it."""
