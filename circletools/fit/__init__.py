"""Whether whole models run on a target, and what prevents it, by the capability tables."""
