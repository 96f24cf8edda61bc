"""The version of circletools."""

__version__ = "0.1.0"
