"""Two models compared in all that they say."""
