"""A model as graphs in columns, and algorithms on them: the layer between the file and the commands."""
