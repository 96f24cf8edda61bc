"""The fix-outputs command."""

from __future__ import annotations

from typing import Annotated, Literal

import circletools as ct

from ..console.terminal import show_json
from ..signature import option
from .parameters import DryRun, Form, InPlace, Input, Output, With, listed, refuse_mixing
from .rewriting import rewrite


def fix_outputs(
    source: Input,
    output: Output = None,
    subgraph: Annotated[
        str, option("--subgraph", "Subgraphs to fix; entry: the main one and those with signatures.", "entry|all|N")
    ] = "entry",
    copy_operator: Annotated[
        Literal["auto", "transpose", "reshape", "concatenation"],
        option("--copy-operator", "The operator that copies."),
    ] = "auto",
    runtime: Annotated[
        Literal["auto", "litert", "onert", "both", "vela"],
        option("--runtime", "The runtime in which copies must be exact; auto means the format's runtime."),
    ] = "auto",
    keep_constants: Annotated[
        bool, option("--keep-constants", "Copy a constant only if the outputs list it more than once.")
    ] = False,
    detach_taps: Annotated[bool, option("--detach-taps", "Also copy outputs that an operator reads.")] = False,
    with_: With = None,
    in_place: InPlace = False,
    dry_run: DryRun = False,
    form: Form = "text",
) -> None:
    """Give every output of a model its own tensor.

    Copies outputs that are constants, inputs or duplicates, with an operator that copies exactly in the format's
    runtime: LiteRT for .tflite (also onert if possible), onert for .circle. Run this after all optimizers, since some
    remove operators that only copy. With --with, programs that accepted the model must also accept the result.
    docs/outputs.md gives the rules.
    """
    if form == "json" and not dry_run:
        refuse_mixing("--json", output, "name a file, or leave out --json")

    def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        return ct.outputs.fix(
            edit,
            subgraph,
            copy_operator=copy_operator,
            runtime=runtime,
            keep_constants=keep_constants,
            detach_taps=detach_taps,
            with_=listed(with_),
        )

    result = rewrite(source, output, in_place, change, dry=dry_run, rewires=True)
    if form == "json":
        show_json(ct.render.rewrite_json(result), source)
