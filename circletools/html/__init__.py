"""The report: one self-contained HTML file with everything known about a model."""
