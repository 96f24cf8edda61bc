"""Hostile models made from nothing: one table in many places, graphs and names that mislead."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kit.attacks.attack import EDIT, Attack, harmless, model_attack, refused, u32s
from tests.kit.build import Build, Code, Shared, Table


def made() -> list[Attack]:
    """Return all of them."""
    return [*_sharing(), *_graphs(), *_names()]


def _tensor(name: bytes | Shared, shape: Sequence[int] = (1,)) -> Table:
    return Table("Tensor", name=name, shape=shape)


def _operator(inputs: Sequence[int] | Shared, outputs: Sequence[int]) -> Table:
    return Table("Operator", inputs=inputs, outputs=outputs)


def _subgraph(tensors: list[Table], operators: list[Table], outputs: Sequence[int] = (1,)) -> Table:
    return Table("SubGraph", tensors=tensors, operators=operators, inputs=[0], outputs=outputs)


def _file(subgraphs: list[Table], build: Build | None = None, code: str = "ADD") -> bytes:
    build = build or Build()
    build.code(Code(code))
    build.model.subgraphs = subgraphs
    return build.to_bytes("circle")


def _two_tensors() -> list[Table]:
    return [_tensor(b"a"), _tensor(b"b")]


def metadata_past_the_buffers() -> bytes:
    """Return a model whose entries name a buffer that is not there."""
    build = Build()
    build.model.metadata = [Table("Metadata", name=name, buffer=7) for name in (b"ONE_source_table", b"ONE_op_table")]
    return build.to_bytes("circle")


def one_tensor(name: bytes, shape: list[int]) -> bytes:
    """Return a model with one operator whose result has this name and shape."""
    return _file([_subgraph([_tensor(b"in", shape), _tensor(name, shape)], [_operator([0, 0], [1])])])


def _sharing() -> list[Attack]:
    return [
        model_attack(
            "subgraph-shared",
            "20,000 references to one subgraph of 100 operators",
            _shared_subgraph,
            {"structure": 3, EDIT: 3},
        ),
        model_attack(
            "subgraphs-empty",
            "1,000 references to one subgraph without operators, with an op table of 5,000",
            _empty_subgraphs,
            {},
        ),
        model_attack("tensor-shared", "one tensor 8,000 times", _shared_tensor, {"structure": 0}),
        model_attack("names-overlap", "5,000 tensors share one name of a megabyte", _shared_name, refused()),
        model_attack("inputs-overlap", "5,000 operators share one list of 200,000 inputs", _shared_inputs, {EDIT: 3}),
        model_attack(
            "codes-overlap", "5,000 operator codes share one custom code of a megabyte", _shared_custom, {EDIT: 3}
        ),
        model_attack(
            "entries-many",
            "8,000 metadata entries, every other of one name",
            _many_entries,
            {"structure": 0, "metadata remove": 0},
        ),
    ]


def _shared_subgraph() -> bytes:
    return _file([_subgraph(_two_tensors(), [_operator([0, 0], [1])] * 100)] * 20_000)


def _empty_subgraphs() -> bytes:
    build = Build()
    build.metadata("ONE_source_table", b"\1\0\0\0\0\0\0\0\2\0\0\0a\0")
    build.metadata("ONE_op_table", u32s(5000, *(number for operator in range(5000) for number in (operator, 1, 0))))
    return _file([Table("SubGraph", tensors=[], operators=[], inputs=[], outputs=[])] * 1_000, build)


def _shared_tensor() -> bytes:
    return _file([_subgraph([_tensor(b"a")] * 8_000, [_operator([0, 1], [2])], [2])])


def _shared_name() -> bytes:
    name = Shared(b"n" * (1 << 20))
    return _file([_subgraph([_tensor(name) for _ in range(5000)], [_operator([0, 1], [2])], [2])])


def _shared_inputs() -> bytes:
    inputs = Shared([0] * 200_000)
    tensors = [_tensor(b"%d" % index) for index in range(5001)]
    return _file([_subgraph(tensors, [_operator(inputs, [index + 1]) for index in range(5000)])])


def _shared_custom() -> bytes:
    build, custom = Build(), Shared(b"c" * (1 << 20))
    fields = {"deprecated_builtin_code": 32, "builtin_code": 32, "custom_code": custom}
    build.model.operator_codes = [Table("OperatorCode", **fields) for _ in range(5000)]
    return _file([_subgraph(_two_tensors(), [_operator([0], [1])])], build)


def _many_entries() -> bytes:
    build = Build()
    at = build.buffer(bytes(4))
    names = [b"ONE_source_table" if index % 2 else b"note" for index in range(8_000)]
    build.model.metadata = [Table("Metadata", name=name, buffer=at) for name in names]
    return _file([_subgraph(_two_tensors(), [_operator([0, 0], [1])])], build)


def _graphs() -> list[Attack]:
    return [
        model_attack(
            "operator-loop",
            "an operator that reads what it writes",
            lambda: _operators([([0, 1], [1])], 2),
            {"structure": 0, "annotate-affinity": 3},
        ),
        model_attack(
            "operators-loop",
            "two operators that wait for each other",
            lambda: _operators([([0, 2], [1]), ([0, 1], [2])], 3),
            {"structure": 0, "annotate-affinity": 3},
        ),
        model_attack(
            "producers-many",
            "3,000 operators write a tensor that 3,000 read",
            lambda: _operators([([0, 0], [1])] * 3000 + [([1, 1], [2])] * 3000, 3),
            {"structure": 0, "annotate-affinity": 3},
        ),
        model_attack(
            "chain-long",
            "4,000 operators in a row, from the last to the first",
            lambda: _operators([([index + 1, index + 1], [index]) for index in range(4_000)], 4_001),
            {"structure": 0, "annotate-affinity": 0},
        ),
        model_attack(
            "outputs-many",
            "5,000 outputs that are one tensor",
            lambda: _operators([([0, 0], [1])], 2, [1] * 5_000),
            {"structure": 0},
        ),
    ]


def _operators(rows: list[tuple[list[int], list[int]]], count: int, outputs: Sequence[int] = (1,)) -> bytes:
    tensors = [_tensor(b"t%d" % index) for index in range(count)]
    return _file([_subgraph(tensors, [_operator(inputs, made) for inputs, made in rows], outputs)])


def _names() -> list[Attack]:
    return [
        model_attack(
            "name-commands",
            "a name that would command a terminal, with line ends",
            lambda: one_tensor(b"\x1b]0;owned\x07\x1b[2J\r\nerror: all is well\n\x9b", [1]),
            harmless(),
        ),
        model_attack(
            "name-nul",
            "a name with a NUL in it",
            lambda: one_tensor(b"a\0b", [1]),
            {"structure": 0, "embed-origins": 4},
        ),
        model_attack(
            "name-bytes", "a name that is not UTF-8", lambda: one_tensor(bytes(range(128, 256)), [1]), harmless()
        ),
        model_attack("name-long", "a name of a megabyte", lambda: one_tensor(b"x" * (1 << 20), [1]), harmless()),
        model_attack("bytecode", "custom options whose map leads into itself", _bytecode, {}),
    ]


def _bytecode() -> bytes:
    operator = _operator([0, 0], [1])
    operator.custom_options = b"bytecode_offset\0bytecode_size\0" + bytes((1, 1, 2, 0x24, 0x24, 0x25, 0x01))
    return _file([_subgraph(_two_tensors(), [operator])], code="CUSTOM")
