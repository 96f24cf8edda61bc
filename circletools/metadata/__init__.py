"""Shared by origins and affinity: the stamp of the operators that a table describes, and the table encoding."""
