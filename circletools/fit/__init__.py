"""Whether models run on a target whole, and what stops them: the capability tables given a verdict."""
