"""NNAPI traces: from marks to runs, executions, layers and phases."""
