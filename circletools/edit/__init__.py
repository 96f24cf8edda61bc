"""The one editing surface: what is changed is written in front, and the old file stays as it is."""
