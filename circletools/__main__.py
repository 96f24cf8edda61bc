"""`python -m circletools`: the command `circletool`."""

from __future__ import annotations

from circletool_cli.main import main

if __name__ == "__main__":
    main()
