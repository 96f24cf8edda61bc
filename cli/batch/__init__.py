"""Run one command on many files, in this process or in several."""
