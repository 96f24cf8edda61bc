"""The smallest program with the same command-line library: what `--help` costs before any code of ours."""

import typer

app = typer.Typer()


@app.command()
def hello(name: str = "world") -> None:
    """Say hello."""
    typer.echo(f"Hello {name}")


if __name__ == "__main__":
    app()
