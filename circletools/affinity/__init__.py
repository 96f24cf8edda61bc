"""Which device runs an operator, and the subgraphs that follow from it."""
