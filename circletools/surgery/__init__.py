"""Cutting finished models: a part as a model, only what is used, other names, signatures, inputs and outputs."""
