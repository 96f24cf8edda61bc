"""Shared by origins and affinity: the encoding of tables, and the stamp of the operators that a table describes."""
