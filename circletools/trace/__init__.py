"""Where the time went: marks in traces of the system, by layer and phase."""
