"""From a request to a plan: devices, partitions, and what they cost."""
