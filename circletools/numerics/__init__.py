"""Where numbers go wrong: a model on several programs, or two models, operator by operator."""
