"""Programs for developers of circletools."""
