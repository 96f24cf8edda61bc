"""The costs of a model: multiply-accumulates, parameters, bytes, and activation memory."""
