"""Shapes: infer output shapes from input shapes as LiteRT does, and change the shapes of models."""
