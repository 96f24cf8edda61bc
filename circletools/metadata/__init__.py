"""The encoding of the tables of origins and affinity, and the stamp of the operators that a table describes."""
