"""How small `compact` makes a model, beside reading all its objects and writing them again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import run
from benchmarks.tasks import Programs

REPACKERS = {".tflite": "litert", ".circle": "circle-schema"}


@dataclass(frozen=True)
class Size:
    """One model, in bytes; a size that is missing has its reason."""

    model: Path
    before: int
    ours: int | None
    ours_failure: str
    repacked: int | None
    repacked_failure: str


def models_below(folder: Path) -> list[Path]:
    """Return the models in a folder."""
    return sorted(path for path in folder.rglob("*") if path.suffix in REPACKERS and path.is_file())


def compare(programs: Programs, models: Sequence[Path], folder: Path, timeout: float) -> Iterator[Size]:
    """Make each model small in both ways."""
    for model in models:
        source = model.resolve()
        output = folder / f"out{source.suffix}"
        ours = _size(programs.ours("compact", source, output).command, output, timeout)
        peer = programs.peer_command(REPACKERS.get(source.suffix, ""), "repack", source, output)
        repacked = _size(peer, output, timeout)
        yield Size(model, source.stat().st_size, *ours, *repacked)


def _size(command: Sequence[str], output: Path, timeout: float) -> tuple[int | None, str]:
    if not command:
        return None, "not installed"
    output.unlink(missing_ok=True)
    failure = run(command, timeout).failure
    if failure:
        return None, failure
    if not output.exists():
        return None, "wrote nothing"
    size = output.stat().st_size
    output.unlink()
    return size, ""
