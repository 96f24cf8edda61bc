"""A model in parts, one for each partition: writing them, and checking that together they equal the model."""
