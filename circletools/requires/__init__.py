"""What a model needs of a TFLite runtime: operator versions, tensor types, features of the format."""
