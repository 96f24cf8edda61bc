"""What origins and affinity share: the stamp of the operators that a table describes, and the table encoding."""
