"""One command over many files: processes, a cluster, and a log to go on from."""
