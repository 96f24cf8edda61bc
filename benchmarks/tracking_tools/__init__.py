"""Scripts that make pairs of models with known truth; each runs with the Python of the tool it needs."""
