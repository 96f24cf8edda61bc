"""A device for every operator, by rules."""
