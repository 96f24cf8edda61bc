"""What a model requires of a TFLite runtime: operator versions, tensor types, features of the format."""
