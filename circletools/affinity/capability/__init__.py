"""What devices take: tables, how they are read, and the operators they are held against."""
