"""The solvers, one per module: each maps a problem to candidates and bounds."""
