"""The requirements of a model on a TFLite runtime: operator versions, tensor types and format features."""
