"""Measure the accuracy of tracking on random networks and simulated tools with known ground truth."""
