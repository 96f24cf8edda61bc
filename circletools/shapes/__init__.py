"""Shapes: what operators make of those of their inputs, as in LiteRT, and models that are given others."""
