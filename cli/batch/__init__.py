"""One command over many files, in this process or in several."""
