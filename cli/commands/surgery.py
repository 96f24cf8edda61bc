"""Commands for the parts, names, inputs and outputs of finished models."""

from __future__ import annotations

from functools import partial

import circletools as ct

from ..console.captured import reading
from ..console.progress import of_bytes
from ..console.terminal import print_notes
from ..signature import argument, option
from .parameters import InPlace, Input, OneSubgraph, OutputFile, numbers
from .rewriting import check_output, is_member, new_findings, print_result, rewrite, target

Pairs = tuple[str, ...]


def extract(
    source: Input,
    output: OutputFile = None,
    from_: Pairs = option("A tensor to turn into an input; may be repeated.", "TENSOR"),
    to: Pairs = option("A tensor to turn into an output; may be repeated.", "TENSOR"),
    operators: Pairs = option("Take these operators instead, such as 0-10; may be repeated.", "RANGES"),
    origin: str | None = option("Take the operators of these sources instead.", "GLOB"),
    signature: str | None = option("Take a signature's operators instead.", "KEY"),
    subgraph: OneSubgraph = 0,
    in_place: InPlace = False,
) -> None:
    """Write part of a model as a separate model.

    By default, takes the operators that depend on --from (default: the model's inputs) and are needed for --to
    (default: its outputs). TENSOR is a name, or an index such as index:12. Includes constants, called subgraphs,
    origins and devices, and adds a signature. With nothing but --subgraph, takes that subgraph. Without options,
    copies a model out of a bundle (BUNDLE!MEMBER), unchanged. docs/surgery.md has the rules.
    """
    request = ct.surgery.ExtractRequest(from_, to, ",".join(operators) or None, origin, signature, subgraph)
    out = target(source, output, in_place)
    if request == ct.surgery.ExtractRequest() and is_member(source):
        print_result(ct.surgery.extract_member(source, out))
        return
    with reading(source) as model:
        result = ct.surgery.extract(model, out, request, in_place=in_place, progress=of_bytes)
        caused = new_findings(model, out)
    print_result(result, source)
    print_notes(caused, out)


def rename(
    source: Input,
    output: OutputFile = None,
    tensor: Pairs = option("Rename tensors by name or glob; may be repeated.", "OLD=NEW"),
    input_: Pairs = option("Name an input, such as 0=image; may be repeated.", "N=NEW"),
    output_: Pairs = option("Name an output, such as 0=boxes; may be repeated.", "N=NEW"),
    signature: Pairs = option("Rename a signature; may be repeated.", "OLD=NEW"),
    signature_input: Pairs = option("Rename an input in all signatures, or in one: KEY/OLD.", "OLD=NEW"),
    signature_output: Pairs = option("Rename an output in all signatures, or in one: KEY/OLD.", "OLD=NEW"),
    regex: bool = option("Treat OLD in --tensor as a regular expression."),
    subgraph: int | None = option("Rename in this subgraph (default for inputs and outputs: 0).", "N", min=0),
    in_place: InPlace = False,
) -> None:
    """Rename tensors, inputs, outputs and signatures.

    OLD in --tensor is a name, a glob, or an index such as index:12. Each * in NEW stands for what the next * or ? in
    the glob matches. --input and --output rename a tensor and its names in signatures. All names change at once, so
    swaps work. Renaming back restores the file, since its bytes are never rewritten. docs/surgery.md gives the rules.
    """
    names = tensor, input_, output_, signature, signature_input, signature_output
    request = ct.surgery.RenameRequest(*names, regex=regex, subgraph=subgraph)
    if request == ct.surgery.RenameRequest(regex=regex, subgraph=subgraph):
        raise ct.UsageError("nothing to rename", hint="use --tensor, --input, --output or --signature")
    rewrite(source, output, in_place, lambda edit: ct.surgery.rename(edit, request))


def signature(
    source: Input,
    output: OutputFile = None,
    add: str | None = option("The key of a signature to add.", "KEY"),
    inputs: Pairs = option(
        "An input of the signature (default: all, named after their tensors).", "NAME=TENSOR", names="--input"
    ),
    outputs: Pairs = option(
        "An output of the signature (default: all, named after their tensors).", "NAME=TENSOR", names="--output"
    ),
    remove: Pairs = option("The key of a signature to remove; may be repeated.", "KEY"),
    subgraph: OneSubgraph = 0,
    in_place: InPlace = False,
) -> None:
    """Add and remove signatures.

    Removes before adding, so using both replaces a signature. TENSOR is a name, or an index such as index:12.
    """
    if add is None and not remove:
        raise ct.UsageError("nothing to change", hint="use --add KEY or --remove KEY")
    if add is None and (inputs or outputs):
        raise ct.UsageError("--input and --output require --add", hint="use --add KEY")
    request = ct.surgery.SignatureRequest(add, inputs, outputs, remove, subgraph)
    rewrite(source, output, in_place, lambda edit: ct.surgery.sign(edit, request), rewires=True)


def reorder(
    source: Input,
    output: OutputFile = None,
    inputs: str | None = option("The old positions in their new order, such as 2,0,1.", "N,..."),
    outputs: str | None = option("The old positions in their new order, such as 1,0.", "N,..."),
    subgraph: OneSubgraph = 0,
    in_place: InPlace = False,
) -> None:
    """Reorder inputs and outputs.

    Signatures do not change, since they refer to inputs and outputs by name.
    """
    if inputs is None and outputs is None:
        raise ct.UsageError("nothing to reorder", hint="use --inputs or --outputs")
    orders = [None if words is None else numbers(words, int) for words in (inputs, outputs)]
    rewrite(source, output, in_place, lambda edit: ct.surgery.reorder(edit, *orders, subgraph=subgraph), rewires=True)


def expose(
    source: Input,
    output: OutputFile = None,
    tensor: Pairs = option("A tensor to turn into an output; may be repeated.", "TENSOR"),
    every: Pairs = option("Add outputs of operators whose code matches this glob; may be repeated.", "CODE"),
    subgraph: OneSubgraph = 0,
    in_place: InPlace = False,
) -> None:
    """Turn tensors into outputs, to see their values.

    Appends tensors to the outputs of the subgraph and its signatures. TENSOR is a name, or an index such as index:12.
    """
    if not tensor and not every:
        raise ct.UsageError("nothing to expose", hint="use --tensor TENSOR or --every CODE")

    change = partial(ct.surgery.expose, tensors=tensor, every=every, subgraph=subgraph)
    rewrite(source, output, in_place, change, rewires=True)


def replace(
    member: str = argument("MEMBER", "The model in a bundle, such as face.task!face.tflite."),
    model: str = argument("MODEL", "The replacement model."),
    output: OutputFile = None,
) -> None:
    """Replace a model in a bundle.

    Rewrites the bundle (.task, .litertlm) completely or not at all. All other bytes stay the same, and models keep
    their alignment. With OUT, writes a changed copy instead.
    """
    check_output(output, [member.partition("!")[0], model])
    print_result(ct.surgery.replace_member(member, model, output))
