"""From devices to partitions: the modes, and what they are made of."""
