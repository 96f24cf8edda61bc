"""Runtimes that are installed, each asked in a process of its own."""
