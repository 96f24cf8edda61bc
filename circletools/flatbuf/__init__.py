"""The wire: FlatBuffers as bytes, columns and an overlay. Knows the format, knows nothing of models.

Format: https://flatbuffers.dev/internals/
"""
