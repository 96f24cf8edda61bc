"""What the library found out, as text, JSON and CSV."""
