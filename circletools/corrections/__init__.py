"""Write wrong calls as they were probably meant: `correct` is the way in, `rules` the table of what values mean."""
