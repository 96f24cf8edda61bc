"""Find where numbers go wrong: compare a model in several programs, or two models, operator by operator."""
