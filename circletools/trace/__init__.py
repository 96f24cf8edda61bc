"""Where the time went: marks in system traces, by layer and phase."""
