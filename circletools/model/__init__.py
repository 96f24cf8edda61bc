"""Both formats through one read-only interface: models, subgraphs, operators, tensors, buffers, signatures."""
