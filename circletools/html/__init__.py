"""The report: a self-contained HTML file with everything known about a model."""
