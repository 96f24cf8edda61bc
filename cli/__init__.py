"""The command `circletool`: arguments, wording, exit statuses. All else is in `circletools`."""
