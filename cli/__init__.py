"""The command `circletool`: arguments, wording, exit statuses. Everything else is in `circletools`."""
