"""Programs that query runtimes and write the tables that circletools ships."""
