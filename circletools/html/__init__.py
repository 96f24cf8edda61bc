"""The report: one HTML file that holds all that is known about a model, and what is needed to look at it."""
