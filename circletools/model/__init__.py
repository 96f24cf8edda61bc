"""The two formats as one vocabulary, read only: models, subgraphs, operators, tensors, buffers, signatures."""
