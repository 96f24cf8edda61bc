"""NNAPI traces: turn marks into runs, executions, layers and phases."""
