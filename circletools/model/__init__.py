"""One read-only interface for both formats: models, subgraphs, operators, tensors, buffers and signatures."""
