"""The `circletool` command: its arguments, messages and exit statuses. Everything else is in `circletools`."""
