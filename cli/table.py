"""The table of commands: what each is called, where it is, and how it takes several files.

A command is the function of that name (`embed_origins`) in a module of `commands`, which is imported when the command
runs. Its docstring begins with the summary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NamedTuple

from .batch.many import many, mirrored
from .signature import Command

_lines = partial(many, heading="line")


def _single(command: Command) -> Command:
    return command


class Row(NamedTuple):
    """A command. `spread` makes one for several files of it."""

    name: str
    module: str
    summary: str
    example: str
    spread: Callable[[Command], Command] = _single
    sides: bool = False
    """Whether -- divides its arguments; for other commands, it ends the options."""

    @property
    def function(self) -> Command:
        """Import the module, and return what the command does."""
        module = import_module(f".commands.{self.module}", __package__)
        return self.spread(getattr(module, self.name.replace("-", "_")))


GROUPS = {
    "Look": ("inspecting", "checking", "comparing", "fitting", "page"),
    "Origins": ("origins", "tracking"),
    "Outputs": ("outputs",),
    "Devices": ("affinity", "affinity_exports", "splitting", "measuring"),
    "Time": ("traces", "attribution"),
    "Files": ("surgery", "rewriting"),
}
"""The headings under which `--help` lists the commands, and the modules of each."""


# fmt: off
COMMANDS = (
    Row("embed-origins", "origins", "Write the source of each operator as metadata.",
        "in.circle out.circle", mirrored),
    Row("dump-origins", "origins", "Show the sources of each operator, and their operators.",
        "out.circle --operator 0-10 --format json", many),
    Row("extract-origins", "origins", "Write the tables of origins to files, and as JSON.",
        "out.circle tables/", partial(mirrored, output="directory")),
    Row("track-origins", "tracking", "Carry origins across a tool that does not keep them.",
        "in.circle b.circle out.circle"),
    Row("fix-outputs", "outputs", "Give every output of a model a tensor of its own.",
        "in.circle out.circle", mirrored),
    Row("annotate-affinity", "affinity", "Write the device of each operator as metadata.",
        "in.circle out.circle --devices npu,cpu --set index:0=npu --default cpu", mirrored),
    Row("dump-affinity", "affinity", "Show the device and the partition of each operator.",
        "out.circle --by partition", many),
    Row("partition", "affinity", "Plan devices and partitions without writing a model.",
        "in.circle --devices npu,cpu --set index:0=npu --default cpu --json", many),
    Row("export-affinity", "affinity_exports", "Write the affinity in the format of another tool.",
        "in.circle --to part -o model.part"),
    Row("split", "splitting", "Write a model for each partition of an annotated model.",
        "out.circle parts/"),
    Row("verify-split", "splitting", "Check that the parts together equal the original.",
        "parts/"),
    Row("measure", "measuring", "Measure the parts of a split on their devices.",
        "parts/ --on cpu=onert -o costs.json"),
    Row("extract", "surgery", "Write a part of a model as a model of its own.",
        "in.tflite head.tflite --ops 2-6"),
    Row("rename", "surgery", "Rename tensors, inputs, outputs and signatures.",
        "in.tflite out.tflite --input 0=image --signature serving_default=detect"),
    Row("signature", "surgery", "Add and remove signatures.",
        "in.tflite out.tflite --add detect --remove serving_default"),
    Row("reorder", "surgery", "Put inputs and outputs in another order.",
        "heads.tflite out.tflite --outputs 2,0,1"),
    Row("expose", "surgery", "Make tensors outputs too, to see their values.",
        "in.tflite out.tflite --every CONV_2D"),
    Row("strip-metadata", "rewriting", "Remove metadata entries.",
        "in.tflite out.tflite --origins", mirrored),
    Row("compact", "rewriting", "Write a minimal file of only what the model uses.",
        "edited.circle small.circle", mirrored),
    Row("inspect", "inspecting", "Show format, sizes, operators, signatures and metadata.",
        "in.circle --json", many),
    Row("verify", "checking", "Check the structure of models, and every index in them.",
        "a.tflite b.circle", _lines),
    Row("check", "checking", "Verify models, and check outputs, origins and devices.",
        "in.circle", _lines),
    Row("explain", "checking", "Tell what a finding means, and what to do about it.",
        "DUPLICATE_OUTPUT"),
    Row("fit", "fitting", "Tell if models run on targets, and what stops them.",
        "in.tflite --on xnnpack,litert-cpu", many),
    Row("diff", "comparing", "Show what differs between two models.",
        "in.circle out.circle --only structure"),
    Row("attest", "comparing", "State that a model is another one but for named parts.",
        "in.circle out.circle --json"),
    Row("trace-stats", "traces", "Show where the time of an NNAPI trace went.",
        "trace.html --by bucket", partial(many, directories=False, heading="own")),
    Row("trace-compare", "traces", "Show what became faster or slower between two traces.",
        "before.html after.html --threshold 5", sides=True),
    Row("trace-export", "traces", "Write the marks of a trace as nested slices.",
        "trace.html out.json --to chrome"),
    Row("attribute", "attribution", "Show where the time went, by operator and source.",
        "trace.chrome.json --model out.circle"),
    Row("report", "page", "Write one HTML page about a model and its traces.",
        "out.circle --trace trace.chrome.json -o report.html"),
)
# fmt: on
