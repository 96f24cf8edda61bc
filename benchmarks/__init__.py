"""Compare the command with its peers on generated models; print one table."""
