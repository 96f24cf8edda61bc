"""What the library found out, as text, JSON and CSV."""

SCHEMA_VERSION = 1
"""`schema_version` of every JSON document that circletools writes."""
