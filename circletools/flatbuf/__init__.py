"""The FlatBuffers encoding: reading it in columns and writing changed files, without knowledge of models.

Format: https://flatbuffers.dev/internals/
"""
