"""Editing: changes are written in front of the original file, whose bytes are never rewritten."""
