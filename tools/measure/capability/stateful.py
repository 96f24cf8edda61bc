"""All variants of LSTM, and operators whose work is in other subgraphs."""

from collections.abc import Iterator, Sequence
from itertools import product

from tests.kit.build import Code
from tools.measure.capability.company import Company
from tools.measure.capability.single import Operand, Options, Probe, Writer

_CELLS, _FEATURES, _BATCH = 4, 3, 2
_NONE = Operand("FLOAT32", (), "none")
_VALUES = ("FLOAT32", "INT32", "INT64", "BOOL", "INT8/t", "UINT8/t")


def recurrent() -> Iterator[Company]:
    """Yield LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM: with peepholes, projection, normalization, coupled gates; INT8."""
    for weights, coupled, peephole, projected, normalized in product(
        ("FLOAT32", "INT8/t", "UINT8/t"), *((False, True),) * 4
    ):
        gates = _float_gates(weights, coupled, peephole, projected, normalized)
        for code, table, lengths in (
            ("LSTM", "LSTMOptions", ()),
            ("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions", (5,)),
        ):
            source, target = (Operand("FLOAT32", (*lengths, _BATCH, size)) for size in (_FEATURES, _CELLS))
            given = {"fused_activation_function": 4, "cell_clip": 0.0, "proj_clip": 0.0}
            options = tuple((given | ({"time_major": True} if lengths else {})).items())
            yield _lstm(Probe(code, (source, *gates), (target,), options, table), ())
    yield from _integer()
    for inner, activation, version in product(("INT16/t", "INT8/t"), (0, 1), (1, 2, 3, 4)):
        inputs = (
            Operand("INT8/t", (_BATCH, _FEATURES)), Operand("INT8/t", (_CELLS, _FEATURES), "constant"),
            Operand(inner, (_CELLS, 5), "constant"), Operand("INT32/t", (_CELLS,), "constant", scale=0.25),
            Operand(inner, (_BATCH, 5 * _CELLS), "variable"),
        )  # fmt: skip
        options = (("rank", 1), ("fused_activation_function", activation))
        probe = Probe("SVDF", inputs, (Operand("INT8/t", (_BATCH, _CELLS)),), options, "SVDFOptions", version)
        yield _lstm(probe, ())


def _float_gates(
    weights: str, coupled: bool, peephole: bool, projected: bool, normalized: bool
) -> tuple[Operand, ...]:
    def gates(size: Sequence[int], kind: str, there: bool = True) -> list[Operand]:
        one = Operand(kind, tuple(size), "constant")
        first = one if there and not coupled else _NONE
        return [first, *([one if there else _NONE] * 3)]

    inner, outer = gates((_CELLS, _FEATURES), weights), gates((_CELLS, _CELLS), weights)
    holes = gates((_CELLS,), weights, peephole)  # three are used: input, forget and output
    biases = gates((_CELLS,), "FLOAT32")
    projection = Operand(weights, (_CELLS, _CELLS), "constant") if projected else _NONE
    shift = Operand("FLOAT32", (_CELLS,), "constant") if projected and normalized else _NONE
    state = Operand("FLOAT32", (_BATCH, _CELLS), "variable")
    more = gates((_CELLS,), "FLOAT32", normalized)
    return (*inner, *outer, *holes[1:], *biases, projection, shift, state, state, *more)


def _integer() -> Iterator[Company]:
    for normalized, projected, length, version in product((False, True), (False, True), (1, 5), (1, 2, 3, 4)):
        inner, outer, bias = (
            Operand(name, size, "constant")
            for name, size in (("INT8/t", (_CELLS, _FEATURES)), ("INT8/t", (_CELLS, _CELLS)), ("INT32/t", (_CELLS,)))
        )
        norm = Operand("INT16/t", (_CELLS,), "constant") if normalized else _NONE
        inputs = (
            Operand("INT8/t", (length, _BATCH, _FEATURES)), *(inner,) * 4, *(outer,) * 4, *(_NONE,) * 3, *(bias,) * 4,
            *((outer, bias) if projected else (_NONE, _NONE)),
            Operand("INT8/t", (_BATCH, _CELLS), "variable"),
            Operand("INT16/t", (_BATCH, _CELLS), "variable", scale=2**-11), *(norm,) * 4,
        )  # fmt: skip
        options = (("fused_activation_function", 4), ("cell_clip", 0.0), ("proj_clip", 0.0), ("time_major", True))
        target = Operand("INT8/t", (length, _BATCH, _CELLS))
        between = (*(Operand("INT16/t", (0,)),) * 4, Operand("INT8/t", (0,)))
        code, table = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"
        yield _lstm(Probe(code, inputs, (target,), options, table, version), between)


def _lstm(probe: Probe, between: Sequence[Operand]) -> Company:
    writer = Writer()
    places, made = ([writer.operand(one) for one in side] for side in (probe.inputs, probe.outputs))
    writer.operator(Code(probe.code, probe.version), places, made, (probe.table, probe.options))
    if between:
        writer.graph.table.operators[-1].intermediates = [writer.operand(one) for one in between]
    return Company(probe, writer.ends(places[:1], made), 0)


def control(code: str) -> Iterator[Company]:
    """Yield IF or WHILE on several values: a choice between equal branches, and a loop that ends immediately."""
    for count, name, rank in product(range(1, 8), _VALUES, (0, 1, 3)):
        values = tuple(Operand(name, (2, 3, 2)[:rank]) for _ in range(count))
        yield _control(code, values)
        yield _control(code, (Operand("INT32", ()), *values))


def _control(code: str, values: Sequence[Operand]) -> Company:
    writer = Writer()
    subgraphs = [writer.build.graph(name) for name in ("first", "second")]
    condition = Operand("BOOL", ())
    inputs = (condition, *values) if code == "IF" else tuple(values)
    places, made = ([writer.operand(one) for one in side] for side in (inputs, values))
    options: Options = (
        ("IfOptions", (("then_subgraph_index", 1), ("else_subgraph_index", 2)))
        if code == "IF"
        else ("WhileOptions", (("cond_subgraph_index", 1), ("body_subgraph_index", 2)))
    )
    writer.operator(Code(code), places, made, options)
    writer.graph.ends(places, made)
    for at, graph in enumerate(subgraphs):
        inside = [graph.tensor(f"i{number}", one.shape, one.element) for number, one in enumerate(values)]
        if code == "WHILE" and at == 0:
            graph.ends(inside, [graph.tensor("stop", (), "BOOL", data=b"\0")])
        else:
            graph.ends(inside, inside)
    probe = Probe(code, tuple(inputs), tuple(values), tuple(options[1]), options[0], variadic=True)
    return Company(probe, writer.build.to_bytes(), 0)
