"""A model as graphs of columns, and what follows from them: between the file and the verbs."""
