"""Programs for those who work on circletools."""
