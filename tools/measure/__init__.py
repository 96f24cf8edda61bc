"""Programs that ask runtimes, and write the tables that circletools ships."""
