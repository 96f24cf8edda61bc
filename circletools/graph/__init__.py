"""A model as graphs stored in columns, and algorithms on the graphs: the layer between the file and the commands."""
