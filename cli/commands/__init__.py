"""The commands: each parses, calls the library and prints."""
