"""Shapes: infer output shapes from input shapes as LiteRT does, for checks and for changing the shapes of models."""
