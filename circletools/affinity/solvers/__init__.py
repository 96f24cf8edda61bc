"""The solvers: from a problem to candidates and bounds, one file each."""
