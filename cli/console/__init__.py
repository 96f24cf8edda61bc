"""Standard output, standard error, and signals."""
