"""The costs of operators, copies and launches on each device."""
