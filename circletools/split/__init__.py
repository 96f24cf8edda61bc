"""A model in parts, one for each device subgraph: writing them, and checking that together they are the model."""
