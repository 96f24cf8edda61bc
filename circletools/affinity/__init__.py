"""Which device runs each operator, and the subgraphs that follow."""
