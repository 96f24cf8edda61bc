"""The smallest program with the same command-line library: what `--help` costs before any code of ours."""

import click


@click.command()
@click.option("--name", default="world")
def hello(name: str) -> None:
    """Say hello."""
    click.echo(f"Hello {name}")


if __name__ == "__main__":
    hello()
