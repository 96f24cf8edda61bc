"""The same inputs for the same interface; see circletools.split.inputs."""

from circletools.split.inputs import make_input

__all__ = ["make_input"]
