"""`python -m circletools`: the `circletool` command."""

from __future__ import annotations

from circletool_cli.main import main

if __name__ == "__main__":
    main()
