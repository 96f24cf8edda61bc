"""Files: mapped, copied, and replaced whole or not at all. Knows no model."""
