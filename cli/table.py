"""The table of commands: names, locations, and how they handle several files.

A command is a function in a module of `commands`, which is imported only when the command runs. Its docstring begins
with the summary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NamedTuple

from .batch.many import many, mirrored
from .signature import Command

_lines = partial(many, heading="line")


class Row(NamedTuple):
    """A command: the function at `place` (MODULE or MODULE:FUNCTION). `spread` extends it to many files."""

    name: str
    place: str
    summary: str
    example: str
    spread: Callable[[Command], Command] | None = None
    sides: bool = False
    """Whether -- separates two lists of arguments; in other commands, -- ends the options."""
    allowance: int = 1
    """The factor for the usual limits on its time and memory; 0, for commands that run models, means no limits."""

    @property
    def function(self) -> Command:
        """Import the module, and return the function of the command."""
        module, _, name = self.place.partition(":")
        found = import_module(f".commands.{module}", __package__)
        command: Command = getattr(found, name or self.name.replace("-", "_"))
        return self.spread(command) if self.spread else command


# fmt: off
GROUPS = {
    "Look": (
        Row("inspect", "inspecting", "Show a model's operators, signatures and metadata.",
            "in.circle --json", many),
        Row("check", "checking", "Find problems in models.",
            "in.circle", _lines),
        Row("diff", "comparing", "Show the differences between two models.",
            "in.circle out.circle --only structure"),
        Row("compare", "comparing", "Show which operators compute different values.",
            "in.tflite --on litert:reference,litert:xnnpack", allowance=0),
        Row("report", "inspecting", "Write one HTML page about a model and its traces.",
            "out.circle --trace trace.chrome.json -o report.html"),
    ),
    "Fit": (
        Row("fit", "fitting", "Show whether models run on targets, and if not, why.",
            "in.tflite --on xnnpack,litert-cpu", many),
        Row("requires", "inspecting", "Show which TFLite and LiteRT releases can load a model.",
            "in.tflite --runtime litert-1.4", partial(many, output="output", joint="resolver", only=".tflite")),
        Row("cost", "inspecting", "Show the MACs, parameters and memory of a model.",
            "in.tflite --by operator", many),
    ),
    "Edit": (
        Row("fix-outputs", "rewriting", "Give every output of a model its own tensor.",
            "in.circle out.circle", mirrored),
        Row("repair", "rewriting", "Fix findings that have exactly one remedy.",
            "in.tflite out.tflite", mirrored),
        Row("extract", "surgery", "Write part of a model as a separate model.",
            "in.tflite head.tflite --operators 2-6"),
        Row("replace", "surgery", "Replace a model in a bundle.",
            "face.task!face.tflite face.tflite"),
        Row("rename", "surgery", "Rename tensors, inputs, outputs and signatures.",
            "in.tflite out.tflite --input 0=image --signature serving_default=detect"),
        Row("signature", "surgery", "Add and remove signatures.",
            "in.tflite out.tflite --add detect --remove serving_default"),
        Row("reorder", "surgery", "Reorder inputs and outputs.",
            "heads.tflite out.tflite --outputs 2,0,1"),
        Row("set-shape", "rewriting", "Change the shapes or the batch size of inputs.",
            "in.tflite out.tflite --batch 4 --mend", mirrored),
        Row("expose", "surgery", "Turn tensors into outputs, to see their values.",
            "in.tflite out.tflite --every CONV_2D"),
        Row("reduce", "comparing", "Reduce a model to a small part that still fails.",
            "in.circle small.circle --while-refused litert", allowance=0),
        Row("metadata list", "metadata:list_entries", "List metadata entries with their sizes.",
            "in.tflite", many),
        Row("metadata get", "metadata:get_entry", "Write the value of a metadata entry to standard output.",
            "in.tflite min_runtime_version"),
        Row("metadata set", "metadata:set_entry", "Set a metadata entry, or add one.",
            "in.tflite out.tflite --name note --text checked", mirrored),
        Row("metadata remove", "metadata:remove_entries", "Remove metadata entries.",
            "in.tflite out.tflite --name min_runtime_version", mirrored),
        Row("metadata rename", "metadata:rename_entries", "Rename one or more metadata entries.",
            "in.tflite out.tflite --name min_runtime_version=runtime", mirrored),
        Row("metadata describe", "metadata:describe", "Describe a model, its inputs and its outputs.",
            "in.tflite out.tflite --name cats --input 0=image --mean 127.5 --std 127.5", mirrored),
        Row("metadata labels", "metadata:labels", "Add labels for the classes of an output.",
            "in.tflite out.tflite --labels labels.txt", mirrored),
        Row("compact", "rewriting", "Write a minimal file without unused bytes.",
            "edited.circle small.circle", mirrored),
    ),
    "Origins": (
        Row("embed-origins", "origins", "Write the source of each operator to the metadata.",
            "in.circle out.circle", mirrored),
        Row("dump-origins", "origins", "Show each operator's sources and each source's operators.",
            "out.circle --operators 0-10 --json", partial(many, output="tables")),
        Row("track-origins", "origins", "Carry origins across a tool that drops them.",
            "in.circle b.circle out.circle"),
    ),
    "Devices": (
        Row("partition", "affinity", "Show or plan the devices and partitions of a model.",
            "in.circle --devices npu,cpu --capabilities npu=xnnpack", many, allowance=4),
        Row("annotate-affinity", "affinity", "Write the device of each operator to the metadata.",
            "in.circle out.circle --devices npu,cpu --capabilities npu=xnnpack", mirrored, allowance=4),
        Row("export-affinity", "affinity", "Write the affinity in another tool's format.",
            "in.circle --to part -o model.part"),
        Row("split", "splitting", "Write a model for each partition of an annotated model.",
            "out.circle parts/"),
        Row("verify-split", "splitting", "Check that the parts of a split match the whole model.",
            "parts/", allowance=0),
        Row("measure", "splitting", "Time a model in parts, and as a whole on each device.",
            "parts/ --on cpu=onert", allowance=0),
    ),
    "Time": (
        Row("profile", "traces", "Run a model, and show where the time goes.",
            "in.tflite --on litert --runs 3", allowance=0),
        Row("attribute", "traces", "Show where the time went, by operator and source.",
            "trace.chrome.json --model out.circle"),
        Row("trace-stats", "traces", "Show where the time went in an NNAPI trace.",
            "trace.html --by bucket", partial(many, directories=False, heading="own")),
        Row("trace-compare", "traces", "Show statistically significant changes between traces.",
            "before.html after.html --threshold 5", sides=True),
        Row("trace-export", "traces", "Write the marks of a trace as nested slices.",
            "trace.html out.json --to chrome"),
    ),
}
# fmt: on
"""The commands, under the headings of `--help`."""

COMMANDS = tuple(row for rows in GROUPS.values() for row in rows)

VERBS = {"metadata": "List and change metadata entries and labels."}
"""Commands with subcommands."""
