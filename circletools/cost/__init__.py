"""What a model costs: multiplications, parameters, bytes, and memory of activations."""
