"""The one editing surface: edits are prepended; the original bytes are never rewritten."""
