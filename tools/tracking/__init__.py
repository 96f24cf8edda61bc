"""How right tracking is: random networks, what tools make of them with the truth noted, and the counts."""
