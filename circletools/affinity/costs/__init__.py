"""Costs of operators, copies and launches on each device, and the cheapest assignment."""
