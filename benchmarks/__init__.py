"""Measurements of the command against its peers: generated models, one table."""
