"""The FlatBuffers encoding as bytes, columns and an overlay, without knowledge of models.

Format: https://flatbuffers.dev/internals/
"""
