"""The costs of a model: multiplications, parameters, bytes, and memory of activations."""
