"""Read capability tables, and match operators against them."""
