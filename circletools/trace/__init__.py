"""Read traces: the time of NNAPI layers and phases, and of operators."""
