"""Check whether a model can be loaded and executed: its graphs, tensors, operators, signatures and names."""
