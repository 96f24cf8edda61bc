"""What operators, copies and launches cost on each device, and the devices that cost least."""
