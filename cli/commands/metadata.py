"""The command metadata: list, get, set, remove and rename the entries of a model."""

from __future__ import annotations

import sys
from typing import Annotated

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as, show_bytes
from ..signature import argument, option
from .parameters import Erase, InPlace, Input, Output, TableForm
from .rewriting import refuse_inputs, rewrite

_WORDS = "The name of the metadata entry."


def list_entries(source: Input, form: TableForm = "text") -> None:
    """List metadata entries with their sizes."""
    with reading(source) as model:
        found = ct.metadata.list(model)
    show_as(form, found, text=ct.render.rows_text, json=ct.render.entries_json, csv=ct.render.rows_csv, file=source)


def get_entry(
    source: Input,
    name: Annotated[str, argument("NAME", _WORDS)],
    output: Annotated[str | None, option("--output -o", "Write the value to FILE instead.", "FILE")] = None,
) -> None:
    """Write the value of a metadata entry to standard output."""
    if output is not None:
        refuse_inputs(output, [source])
    with reading(source) as model:
        value = ct.metadata.get(model, name)
    if output is None or output == "-":
        show_bytes(value)
    else:
        ct.files.write(output, [value])


def set_entry(
    source: Input,
    output: Output = None,
    *,
    name: Annotated[str, option("--name", _WORDS, "NAME")],
    text: Annotated[str | None, option("--text", "The value, as text.", "TEXT")] = None,
    file: Annotated[str | None, option("--file", "The file with the value; - is standard input.", "FILE")] = None,
    erase: Erase = False,
    in_place: InPlace = False,
) -> None:
    """Give a metadata entry a value, or add one.

    Without --erase, the old value stays in the file, unused.
    """
    if (text is None) == (file is None):
        raise ct.UsageError("give the value by either --text or --file")
    if file == source == "-":
        raise ct.UsageError("the model and the value cannot both be standard input")
    value = text.encode("utf-8", "surrogateescape") if text is not None else _bytes_of(str(file))
    rewrite(source, output, in_place, lambda edit: ct.metadata.set(edit, name, value), inputs=[file], erase=erase)


def _bytes_of(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise ct.InvalidInputError(f"cannot read it: {error.strerror}", location=file) from error


def remove_entries(
    source: Input,
    output: Output = None,
    name: Annotated[tuple[str, ...], option("--name", "A metadata entry to remove; may be repeated.", "NAME")] = (),
    origins: Annotated[bool, option("--origins", "Remove the origin tables and their stamp.")] = False,
    affinity: Annotated[bool, option("--affinity", "Remove the affinity tables and their stamp.")] = False,
    erase: Erase = False,
    in_place: InPlace = False,
) -> None:
    """Remove metadata entries.

    The data goes with the entry, unless another entry or a tensor shares it. A name that the model does not have
    is an error. Without --erase, the old value stays in the file, unused.
    """
    if not name and not origins and not affinity:
        raise ct.UsageError("nothing to remove", hint="use --name NAME, --origins or --affinity")

    def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        return ct.metadata.remove(edit, name, origins=origins, affinity=affinity)

    rewrite(source, output, in_place, change, erase=erase)


def rename_entries(
    source: Input,
    output: Output = None,
    *,
    pairs: Annotated[tuple[str, ...], option("--name", "An entry and its new name; may be repeated.", "OLD=NEW")],
    in_place: InPlace = False,
) -> None:
    """Rename metadata entries, all at once."""
    rewrite(source, output, in_place, lambda edit: ct.metadata.rename(edit, pairs))
