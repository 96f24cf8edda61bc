"""Find the smallest model that still fails, by delta debugging."""
