"""The repair command."""

from __future__ import annotations

from typing import Annotated

import circletools as ct

from ..signature import option
from .parameters import DryRun, InPlace, Input, Output, With, listed
from .rewriting import rewrite


def repair(
    source: Input,
    output: Output = None,
    only: Annotated[tuple[str, ...], option("--only", "Fix findings with this code; may be repeated.", "CODE")] = (),
    with_: With = None,
    in_place: InPlace = False,
    dry_run: DryRun = False,
) -> None:
    """Fix findings that have exactly one remedy.

    Fixes only findings that make programs refuse a model; with --only, instead those with the given codes. With
    --with, programs that accepted the model must also accept the result. docs/findings.md lists the codes.
    """
    rewrite(
        source,
        output,
        in_place,
        lambda edit: ct.surgery.repair(edit, only, with_=listed(with_)),
        dry=dry_run,
        rewires=True,
    )
