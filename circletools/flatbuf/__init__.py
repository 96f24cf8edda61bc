"""The FlatBuffers encoding: reading it in columns and writing changed files, independently of what a model is.

Format: https://flatbuffers.dev/internals/
"""
