"""Findings that keep a program from loading and running a model.

    refusals(model, ["litert", "onert"])    # for each program, the findings for which it refuses the model

If a finding matches none of a program's rules, the program was not observed to refuse such models. The rules were
checked on models from LiteRT, onert and other corpora, each changed in one place (`tools.measure.check_mutations`);
the tests ask the programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from circletools.errors import UnknownNameError
from circletools.findings import Finding, Findings
from circletools.model.model import Model
from circletools.model.verify import breaks_graph, check_model
from circletools.soundness.operator_findings import unresolved_findings
from circletools.soundness.shape_findings import shape_findings
from circletools.soundness.soundness import name_findings, operation_findings
from circletools.wording import suggestion

_OPERANDS = r"\.(inputs\[\d+\]|outputs\[\d+\](?!: tensor -1 )|opcode_index)"
_ABSENT = r"subgraphs\[[1-9]\d*\]\.inputs\[\d+\]: tensor -1 "  # LiteRT skips these inputs
_MISFITS = (
    r"\w+ does not fit its inputs: .*(do not broadcast|does not (match|permute|divide)|is not a multiple of"
    "|cannot (form|be multiplied)|is not the number of outputs).*LiteRT's kernel refuses"
)
_CALLED = r"INDEX_OUT_OF_RANGE .*(cond|body|then|else)_subgraph_index"
_REFUSED = {
    "litert": (
        r"NO_SUBGRAPH|SCHEMA_VERSION|OPERATOR_VERSION|OPERATOR_TYPES"
        "|UNKNOWN_TENSOR_TYPE|UNPRODUCED_TENSOR|INVALID_VARIABLE"
        "|NEGATIVE_DIMENSION|CONSTANT_TOO_SHORT (?!.*onert)",
        r"EXTERNAL_DATA_OUTSIDE_FILE .*LiteRT refuses",
        r"OPERATOR_SLOTS (?!.*XNNPACK delegate)|OUTPUT_LEFT_OUT (?!.*LiteRT ignores)",
        r"OPERATOR_SHAPES .*LiteRT's kernel refuses",
        r"(NO_BUFFERS|IN_PLACE_OPERATOR) .*LiteRT refuses",
        r"UNKNOWN_OPERATOR (?!.*: (onert has no kernel|only LiteRT's XNNPACK delegate))",
        rf"INDEX_OUT_OF_RANGE (?!{_ABSENT})subgraphs\[\d+\](\.operators\[\d+\])?{_OPERANDS}",
        r"INDEX_OUT_OF_RANGE .*(LiteRT refuses|subgraph \d+ does not exist; the count is 0)",
        r"INDEX_OUT_OF_RANGE subgraphs\[\d+\]\.(tensors\[\d+\]\.buffer|operators.*(?<!decomposition)_subgraph_index)",
        r"INVALID_QUANTIZATION (?!.*(a scale is not|XNNPACK delegate|in blocks of (?!.*LiteRT refuses)))",
        r"INVALID_SIGNATURE .*has no key",
        r"UNKNOWN_OPTION .*(is (0|-\d+), which is not a valid stride|quantized_bias_type|LiteRT's kernel refuses)",
        r"UNKNOWN_OPTION (\w*Conv2?D?Options\.padding|MirrorPadOptions\.mode|LSTMOptions\.kernel_type)",
        "TENSOR_TOO_LARGE .*LiteRT refuses",
    ),
    "onert": (
        "NO_SUBGRAPH|UNKNOWN_TENSOR_TYPE|UNPRODUCED_TENSOR|IN_PLACE_OPERATOR|OUTPUT_LEFT_OUT|CONSTANT_TOO_SHORT",
        r"UNKNOWN_OPERATOR (?!.*: LiteRT has no kernel)",
        r"OUTPUT_TAP .* may reuse its memory",
        _CALLED,
        r"OPERATOR_SHAPES .*: SQUEEZE ",
        rf"OPERATOR_SHAPES .*: (?!ADD_N|SELECT|UNPACK){_MISFITS}",
        "NO_METADATA|OLD_OPERATOR_CODE|SENTINEL_BUFFER_NOT_EMPTY .*onert",
    ),
}
"""For each program, patterns of findings (`CODE location: message`) that keep it from running a model."""
_PARTLY = {
    "openvino": (
        _CALLED,
        r"OPERATOR_SHAPES .*: SQUEEZE ",
        rf"OPERATOR_SHAPES .*: (?!ADD_N|BATCH_MATMUL|PRELU|SELECT |RESHAPE|TILE){_MISFITS}",
        r"INVALID_QUANTIZATION .*quantized_dimension is",
        r"DUPLICATE_NAME .*another type",
        "OLD_OPERATOR_CODE",
    ),
    "tflm": (_CALLED, "OFFLINE_PLAN", r"OPERATOR_SHAPES .*: SQUEEZE "),
}
"""The same for programs that are not known well enough to judge all findings."""
_DOUBTED = dict.fromkeys(("onert", "openvino", "tflm"), (r"OPERATOR_SHAPES .*LiteRT's kernel refuses",))
"""The same for findings for which the program refuses some models but not others."""
_IGNORED = {
    "litert": (
        "SHAPE_SIGNATURE_MISMATCH|SENTINEL_BUFFER_NOT_EMPTY|MIN_RUNTIME_VERSION"
        "|CONSTANT_OUTPUT|DUPLICATE_INPUT|OUTPUT_TAP"  # CompiledModel returns wrong values for other aliased outputs
        "|NO_METADATA|OLD_OPERATOR_CODE|OFFLINE_PLAN",
        r"UNKNOWN_OPTION .*ActivationFunctionType",
        r"INDEX_OUT_OF_RANGE (metadata(_buffer)?\[|.*external_buffer)",
        r"INVALID_SIGNATURE .*\.name|INVALID_SPARSITY .*LiteRT reads|OUTPUT_LEFT_OUT .*LiteRT ignores",
        r"(NO_BUFFERS|PRODUCED_INPUT|TENSOR_TOO_LARGE .*LiteRT computes) (?!.*(LiteRT refuses|was read before))",
        r"EXTERNAL_DATA_OUTSIDE_FILE buffers(?!.*LiteRT refuses)",
    )
}
"""The same for findings about properties that the program never reads, so the model runs anyway."""
JUDGED = (*_REFUSED, *_PARTLY)


def refusals(model: Model, programs: Iterable[str]) -> dict[str, list[Finding]]:
    """Return, by program, the findings that keep the program from running a model; none for a program without rules.

    Raises ModelFormatError if the structure is broken.
    """
    return {program: found.refused for program, found in judged(model, programs).items()}


class Judged(NamedTuple):
    """Findings that keep a program from running a model, and those that may do so."""

    refused: list[Finding]
    doubted: list[Finding]


def judged(model: Model, programs: Iterable[str]) -> dict[str, Judged]:
    """Return, by program, the findings that `refusals` returns, and the doubtful ones."""
    rules = {program: _REFUSED.get(program, _PARTLY.get(program, ())) for program in programs}
    found = [*check_model(model), *unresolved_findings(model, rules)] if any(rules.values()) else []
    if any(rules.values()) and not any(map(breaks_graph, found)):
        found += [*operation_findings(model), *(name_findings(model) if "openvino" in rules else ())]
        found += shape_findings(model)
    return {
        program: Judged(
            [one for one in found if _matches(of, one)],
            [one for one in found if _matches(_DOUBTED.get(program, ()), one)],
        )
        for program, of in rules.items()
    }


def weighed(findings: Findings, programs: Sequence[str]) -> Findings:
    """Return the findings with the severity that they have for running the model in these programs.

    The severity is `error` if one of the programs refuses the model because of the finding, `info` if all ignore it,
    otherwise at most `warning`; if no program is given, the severity does not change. Raises UsageError for an
    unknown program.
    """
    for program in programs:
        if program not in JUDGED:
            hint = f"{suggestion(program, JUDGED)}; for others, including Ethos-U and GPUs, use `fit --on`"
            raise UnknownNameError(f"`check` has no rules for {program!r}", hint=hint)
    return Findings(_weigh(finding, programs) for finding in findings) if programs else findings


def _weigh(finding: Finding, programs: Sequence[str]) -> Finding:
    if any(_matches(_REFUSED.get(program, _PARTLY.get(program, ())), finding) for program in programs):
        return replace(finding, severity="error")
    if all(_matches(_IGNORED.get(program, ()), finding) for program in programs):
        return replace(finding, severity="info")
    is_known = finding.severity != "error" or any(program in _PARTLY for program in programs)
    return finding if is_known else replace(finding, severity="warning")


def _matches(rules: Iterable[str], finding: Finding) -> bool:
    text = f"{finding.code} {finding.location}: {finding.message}"
    return any(re.match(rf"({rule})\b" if " " not in rule else rule, text) for rule in rules)
