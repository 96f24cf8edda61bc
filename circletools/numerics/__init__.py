"""Find where numbers go wrong: compare the results of several programs, or of two models, operator by operator."""
