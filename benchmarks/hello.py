"""The smallest program with the same command-line library, to measure the cost of `--help` without circletools."""

import click


@click.command()
@click.option("--name", default="world")
def hello(name: str) -> None:
    """Print a greeting."""
    click.echo(f"Hello {name}")


if __name__ == "__main__":
    hello()
