"""Whether whole models run on a target, and what prevents it, according to the capability tables."""
