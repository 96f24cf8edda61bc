"""What all JSON documents have in common."""

SCHEMA_VERSION = 1
"""`schema_version` of every JSON document that circletools writes."""
