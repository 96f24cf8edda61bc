"""What an attack is: a hostile file, made by code, and what each command must make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from circletools.flatbuf.columns import Tables, Vectors
from circletools.model.model import Model, open_model
from fuzz.seeds import model_seed

BROKEN = 3
"""The structure is broken: every command that walks over all of it reports this."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A hostile file.

    `kind` says which commands read it (tests/laws/test_attacks.py). `expect` has the exit status of commands for
    which it is certain; the others may succeed, find something, or refuse it, as any command may. `EDIT` stands for
    every command that writes a model.
    """

    name: str
    kind: str
    message: str
    make: Callable[[], bytes]
    expect: Mapping[str, int] = field(default_factory=dict)


EDIT = "edit"


def model_attack(name: str, message: str, make: Callable[[], bytes], expect: Mapping[str, int]) -> Attack:
    """Return an attack that is a model."""
    return Attack(name, "models", message, make, expect)


def refused(status: int = BROKEN) -> dict[str, int]:
    """Expect that nobody verifies or edits it."""
    return {"structure": status, "check": status, EDIT: 3 if status == BROKEN else 4}


def harmless() -> dict[str, int]:
    """Expect that it is taken for what it is: it verifies, and edits are made."""
    return {"structure": 0, EDIT: 0}


class Patched:
    """A model of testdata with numbers written over others, at places that the schema names."""

    def __init__(self, name: str) -> None:
        self.data = bytearray(model_seed(name))
        self.model: Model = open_model(bytes(self.data))

    def rows(self, table: str) -> Tables:
        """Return all tables of a type."""
        return self.model.reachable.tables[table]

    def table(self, table: str, row: int = 0) -> int:
        """Return the position of a table."""
        return int(self.rows(table).at[row])

    def vtable(self, table: str, row: int = 0) -> int:
        """Return the position of a table's vtable."""
        return int(self.rows(table).vtable[row])

    def field(self, table: str, name: str, row: int = 0) -> int:
        """Return the position of a field in the table in `row`, or in the first later table that has the field."""
        rows = self.rows(table)
        positions = rows.slot_positions(rows.field(name).slot).tolist()
        return int(next(at for at in positions[row:] if at))

    def vector(self, table: str, name: str, row: int = 0) -> int:
        """Return the position of the length of a vector or string."""
        vectors: Vectors = self.rows(table).vectors(name)
        return int(next(start for start in vectors.start.tolist()[row:] if start)) - 4

    def put(self, at: int, value: int, width: int = 4) -> Patched:
        """Write a number."""
        self.data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
        return self

    def refer(self, at: int, to: int) -> Patched:
        """Let the reference at `at` lead to `to`, also backwards."""
        return self.put(at, to - at)

    def end(self, more: bytes = b"") -> bytes:
        """Return the file, with something behind it."""
        return bytes(self.data) + more


def patched(name: str, change: Callable[[Patched], Patched]) -> Callable[[], bytes]:
    """Return a maker of a changed model of testdata."""
    return lambda: change(Patched(name)).end()


def u32s(*numbers: int) -> bytes:
    """Return numbers as u32 little endian."""
    return b"".join((number % (1 << 32)).to_bytes(4, "little") for number in numbers)
