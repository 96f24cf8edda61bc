"""Commands for outputs: fix-outputs; and check, which reports on them and on origins."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from .parameters import InPlace, Input, Json, Output
from .rewriting import rewrite

if TYPE_CHECKING:
    from circletools.edit.edit import ModelEdit
    from circletools.edit.results import RewriteResult


class CopyOperator(StrEnum):
    """The operator to copy with; `auto` takes what the measured table has for the tensor."""

    AUTO = "auto"
    TRANSPOSE = "transpose"
    RESHAPE = "reshape"
    CONCATENATION = "concatenation"


def fix_outputs(
    source: Input,
    output: Output = None,
    subgraph: Annotated[
        str, typer.Option("--subgraph", metavar="entry|all|N", help="Which subgraphs; entry: those a user calls.")
    ] = "entry",
    copy_operator: Annotated[
        CopyOperator, typer.Option("--copy-op", help="The operator to copy with.")
    ] = CopyOperator.AUTO,
    keep_constants: Annotated[
        bool, typer.Option("--keep-constants", help="Leave a constant output alone; copy it only for further slots.")
    ] = False,
    detach_taps: Annotated[
        bool, typer.Option("--detach-taps", help="Copy outputs that an operator reads, too.")
    ] = False,
    in_place: InPlace = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; write nothing.")] = False,
    json: Json = False,
) -> None:
    """Give every output of a model a tensor of its own.

    Outputs that are constants, inputs or other outputs get a copy, by an operator that copies exactly in the runtime
    of the format: LiteRT for .tflite, onert for .circle. Run it after all other optimisers: some remove operators
    that only copy. docs/outputs.md has the rules.
    """
    from circletools import origin  # noqa: PLC0415
    from circletools.affinity import store  # noqa: PLC0415
    from circletools.outputs import OddKind, choose_subgraphs, fix_outputs, odd_outputs  # noqa: PLC0415
    from circletools.wording import SCHEMA_VERSION  # noqa: PLC0415

    from ..console.terminal import complain, show_json  # noqa: PLC0415

    if json and output == "-" and not dry_run:
        hint = "name a file, or leave out --json"
        raise UsageError("--json and an output of - would mix on standard output", hint=hint)

    notes: list[str] = []

    def change(edit: ModelEdit) -> RewriteResult:
        origin.follow(edit)
        store.follow(edit)
        chosen = choose_subgraphs(edit.model, subgraph)
        for odd in odd_outputs(edit.model, chosen):
            if odd.kind is OddKind.UNPRODUCED:
                place = f"subgraphs[{odd.subgraph}].outputs[{odd.slot}] {odd.name}"
                notes.append(f"{place}: nothing produces it, so there is nothing to copy")
        return fix_outputs(
            edit,
            chosen,
            copy_operator=copy_operator.value,
            keep_constants=keep_constants,
            detach_taps=detach_taps,
        )

    result = rewrite(source, output, in_place, change, dry=dry_run)
    for note in notes:
        complain("note", note)
    if json:
        show_json({"schema_version": SCHEMA_VERSION, "changes": result.changes})
