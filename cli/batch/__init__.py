"""One command over many files: processes, and a log to go on from."""
