"""The metadata command: list, get, set, remove and rename the entries of a model."""

from __future__ import annotations

from functools import partial
from json import dumps
from pathlib import Path

import circletools as ct

from ..console.captured import read_bytes, read_text, reading
from ..console.terminal import show_as
from ..signature import REQUIRED, argument, option
from .parameters import Erase, InPlace, Input, Output, TableForm, numbers
from .rewriting import check_output, rewrite, write_or_show

_WORDS = "The name of the metadata entry."


def list_entries(source: Input, form: TableForm = "text") -> None:
    """List metadata entries with their sizes."""
    with reading(source) as model:
        found = ct.metadata.list(model)
    show_as(form, found, text=ct.render.rows_text, json=ct.render.entries_json, csv=ct.render.rows_csv, file=source)


def get_entry(
    source: Input,
    name: str = argument("NAME", _WORDS),
    output: str | None = option("Write the value to this file instead.", "FILE", names="--output -o"),
    as_json: bool = option("Write TFLITE_METADATA as JSON.", names="--json"),
) -> None:
    """Write the value of a metadata entry to standard output."""
    check_output(output, [source])
    if as_json and name != "TFLITE_METADATA":
        raise ct.UsageError("--json works only for TFLITE_METADATA")
    with reading(source) as model:
        value = ct.metadata.get(model, name)
        if as_json:
            value = f"{dumps(ct.metadata.document(model), indent=2)}\n".encode()
    write_or_show(output, value)


def set_entry(
    source: Input,
    output: Output = None,
    *,
    name: str = option(_WORDS, "NAME"),
    text: str | None = option("The value as text.", "TEXT"),
    file: str | None = option("The file with the value, or - for standard input.", "FILE"),
    erase: Erase = False,
    in_place: InPlace = False,
) -> None:
    """Set a metadata entry, or add one.

    Without --erase, the old value stays in the file as unused bytes.
    """
    if (text is None) == (file is None):
        raise ct.UsageError("give the value with either --text or --file")
    if file == source == "-":
        raise ct.UsageError("the model and the value cannot both come from standard input")
    value = text.encode("utf-8", "surrogateescape") if text is not None else read_bytes(str(file))
    rewrite(source, output, in_place, lambda edit: ct.metadata.set(edit, name, value), inputs=[file], erase=erase)


def remove_entries(
    source: Input,
    output: Output = None,
    name: tuple[str, ...] = option("A metadata entry to remove; may be repeated.", "NAME"),
    origins: bool = option("Remove the origin tables and their stamp."),
    affinity: bool = option("Remove the affinity tables and their stamp."),
    files: bool = option("Remove the archive of associated files, such as labels."),
    erase: Erase = False,
    in_place: InPlace = False,
) -> None:
    """Remove metadata entries.

    A missing name is an error. Values stay in the file as unused bytes; with --erase, those that no other entry or
    tensor shares are removed.
    """
    if not (name or origins or affinity or files):
        raise ct.UsageError("nothing to remove", hint="use --name NAME, --origins, --affinity or --files")

    change = partial(ct.metadata.remove, names=name, origins=origins, affinity=affinity, files=files)
    rewrite(source, output, in_place, change, erase=erase)


def rename_entries(
    source: Input,
    output: Output = None,
    *,
    pairs: tuple[str, ...] = option(
        "An entry and its new name; may be repeated.", "OLD=NEW", names="--name", default=REQUIRED
    ),
    in_place: InPlace = False,
) -> None:
    """Rename one or more metadata entries."""
    rewrite(source, output, in_place, lambda edit: ct.metadata.rename(edit, pairs))


def labels(
    source: Input,
    output: Output = None,
    *,
    file: Path = option("A text file with one label per line.", "FILE", names="--labels"),
    of: str = option("The output, by position or name.", "OUTPUT", default="0", names="--output"),
    name: str | None = option("The file's name in the archive; by default labels.txt.", "FILE"),
    locale: str = option("The language of the labels, such as en.", "LOCALE", default=""),
    values: bool = option("The labels name values in the output (for detectors)."),
    in_place: InPlace = False,
) -> None:
    """Add labels for the classes of an output.

    Adds the label file to the ZIP archive appended to the model and lists it in TFLITE_METADATA, where
    tflite-support and MediaPipe find it. Labels name the entries of the output's last dimension.
    """
    lines = read_text(file).splitlines()
    change = partial(ct.metadata.labels, names=lines, output=of, file=name, locale=locale, values=values)
    rewrite(source, output, in_place, change, inputs=[file])


def describe(
    source: Input,
    output: Output = None,
    name: str | None = option("The name of the model.", "TEXT"),
    description: str | None = option("A description of the model.", "TEXT"),
    version: str | None = option("The version of the model.", "TEXT", names="--model-version"),
    author: str | None = option("The author of the model.", "TEXT"),
    license_: str | None = option("The license of the model.", "TEXT"),
    inputs: tuple[str, ...] = option("Describe an input; may be repeated.", "INPUT=TEXT", names="--input"),
    outputs: tuple[str, ...] = option("Describe an output; may be repeated.", "OUTPUT=TEXT", names="--output"),
    mean: str | None = option("The mean of the first input, or one per channel.", "N,..."),
    std: str | None = option("The standard deviation of the first input.", "N,..."),
    json: str | None = option("A complete description, in the form of `metadata get --json`.", "FILE"),
    files: tuple[str, ...] = option("A file named in the JSON; may be repeated.", "FILE", names="--file"),
    in_place: InPlace = False,
) -> None:
    """Describe a model, its inputs and its outputs.

    Writes the texts to TFLITE_METADATA, which tflite-support and MediaPipe read, and keeps its other fields. --mean
    and --std record that the model expects (value - mean) / std. --json replaces the whole description.
    """
    if files and json is None:
        raise ct.UsageError("--file requires --json")
    if (mean is None) != (std is None):
        raise ct.UsageError("--mean and --std go together", hint="give both")
    texts = ct.metadata.Description(name, description, version, author, license_, inputs, outputs)
    has_texts = mean is not None or texts != ct.metadata.Description()
    if json is None and not has_texts:
        raise ct.UsageError("nothing to describe", hint="use --description, --input, --json or another option")
    if json is not None and has_texts:
        raise ct.UsageError(
            "--json replaces the whole description", hint="edit the JSON file, or run the command twice"
        )

    def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        if json is not None:
            given = {Path(file).name: read_bytes(file) for file in files}
            return ct.metadata.set_document(edit, read_bytes(json), given)
        result = ct.metadata.describe(edit, texts)
        if mean is None or std is None:
            return result
        return ct.metadata.normalize(edit, numbers(mean, float), numbers(std, float))

    rewrite(source, output, in_place, change, inputs=[json, *files])
