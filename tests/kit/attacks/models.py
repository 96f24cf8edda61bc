"""Hostile models: their structure, their indices, what they say lies outside the flatbuffer, their sizes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

from tests.kit.attacks.attack import EDIT, Attack, Patched, harmless, patched, refused
from tests.kit.attacks.build import Build

_CNN, _INCEPTION, _EXTERNAL = "circle/cnn", "circle/inception", "circle/mlp_external"
_OPTIONS_EXTERNAL, _ZIP = "tflite/custom_options_external", "tflite/zip_tail"


def models() -> list[Attack]:
    """Return all of them."""
    return [*_structure(), *_indices(), *_outside(), *_sharing(), *_graphs(), *_names()]


def _model(name: str, says: str, make: Callable[[], bytes], expect: dict[str, int], kind: str = "models") -> Attack:
    return Attack(name, kind, says, make, expect)


def _structure() -> list[Attack]:
    broken = refused()
    return [
        _model("empty", "no byte at all", lambda: b"", {**broken, "inspect": 3}),
        _model("header-only", "a header and nothing else", lambda: b"\4\0\0\0CIR0", {**broken, "inspect": 3}),
        _model(
            "root-outside",
            "the root offset leads past the end",
            patched(_CNN, lambda model: model.put(0, 1 << 30)),
            {**broken, "inspect": 3},
        ),
        _model("root-cycle", "the root offset leads to itself", patched(_CNN, lambda model: model.put(0, 0)), broken),
        _model(
            "cycle",
            "a subgraph's tensors lead back to the model",
            patched(_CNN, lambda model: model.refer(model.field("SubGraph", "tensors"), model.table("Model"))),
            broken,
        ),
        _model(
            "vtable-is-table",
            "a table is its own vtable",
            patched(_CNN, lambda model: model.put(model.table("Tensor", 3), 0)),
            {},
        ),
        _model(
            "vtable-outside",
            "a vtable past the end",
            patched(_CNN, lambda model: model.put(model.table("Operator", 2), -(1 << 30))),
            broken,
        ),
        _model(
            "vtable-before",
            "a vtable before the start",
            patched(_CNN, lambda model: model.put(model.table("Operator", 2), 1 << 30)),
            broken,
        ),
        _model(
            "vtable-long",
            "a vtable of 65534 bytes",
            patched(_CNN, lambda model: model.put(model.vtable("Model"), 65534, 2)),
            broken,
        ),
        _model(
            "field-outside",
            "a field 65534 bytes into its table",
            patched(_CNN, lambda model: model.put(model.vtable("Model") + 8, 65534, 2)),
            broken,
        ),
        _model(
            "vector-billion",
            "a vector of 10^9 references",
            patched(_CNN, lambda model: model.put(model.vector("Model", "subgraphs"), 10**9)),
            broken,
        ),
        _model(
            "vector-wraps",
            "a length that wraps to little when multiplied in 32 bits",
            patched(_CNN, lambda model: model.put(model.vector("Tensor", "shape"), (1 << 30) + 1)),
            broken,
        ),
        _model(
            "string-unended",
            "a string that ends without a NUL",
            patched(_CNN, lambda model: model.put(model.vector("Tensor", "name"), 3)),
            broken,
        ),
        _model(
            "union-other",
            "options of another type than the union's code says",
            patched(_CNN, lambda model: model.put(model.field("Operator", "builtin_options_type"), 11, 1)),
            {},
        ),
        _model(
            "union-unknown",
            "a union code that no schema has",
            patched(_CNN, lambda model: model.put(model.field("Operator", "builtin_options_type"), 200, 1)),
            {"verify": 0, "inspect": 0},
        ),
        _model(
            "overlap",
            "an operator's inputs are the vtable of another table",
            patched(_CNN, lambda model: model.refer(model.field("Operator", "inputs"), model.vtable("Model") & ~3)),
            {},
        ),
        _model(
            "prefix-forged", "a prefix marker that names a place in the middle", lambda: _forged(64), {"verify": 0}
        ),
        _model("prefix-nested", "a prefix marker in front of a whole other model", _prefix_nested, {"verify": 0}),
    ]


def _forged(length: int) -> bytes:
    """Return a model whose first object is the marker of a prefix, which it does not have."""
    model = Patched(_CNN)
    shift = 64
    root = int.from_bytes(model.data[:4], "little") + shift
    head = root.to_bytes(4, "little") + b"CIR0" + b"CIRTOOL1" + length.to_bytes(8, "little")
    return head + bytes(8 + shift - len(head)) + bytes(model.data[8:])


def _prefix_nested() -> bytes:
    front = _forged(0)
    front += bytes(-len(front) % 64)
    return front[:16] + len(front).to_bytes(8, "little") + front[24:] + bytes(Patched(_INCEPTION).data)


def _indices() -> list[Attack]:
    wrong = refused(1)
    return [
        _model(
            "tensor-index",
            "an operator reads tensor 2^31-1",
            patched(_CNN, lambda model: model.put(model.vector("Operator", "inputs") + 4, (1 << 31) - 1)),
            wrong,
        ),
        _model(
            "tensor-negative",
            "an operator reads tensor -2",
            patched(_CNN, lambda model: model.put(model.vector("Operator", "inputs") + 4, -2)),
            wrong,
        ),
        _model(
            "output-negative",
            "an operator writes tensor -2^31",
            patched(_CNN, lambda model: model.put(model.vector("Operator", "outputs") + 4, -(1 << 31))),
            wrong,
        ),
        _model(
            "code-index",
            "an operator of code 2^32-1",
            patched(_INCEPTION, lambda model: model.put(model.field("Operator", "opcode_index"), -1)),
            wrong,
        ),
        _model(
            "buffer-index",
            "a tensor's buffer is the number of buffers: the next one to be appended",
            patched(_CNN, lambda model: model.put(model.field("Tensor", "buffer"), len(model.model.buffers))),
            wrong,
        ),
        _model(
            "metadata-buffer",
            "an entry whose buffer does not exist",
            _metadata_past_the_buffers,
            {**wrong, "dump-origins": 3},
        ),
        _model(
            "signature-subgraph",
            "a signature of subgraph 2^32-1",
            patched(
                "circle/two_signatures", lambda model: model.put(model.field("SignatureDef", "subgraph_index"), -1)
            ),
            wrong,
        ),
        _model(
            "call-missing",
            "a WHILE whose body is subgraph 2^31-1",
            patched(
                "circle/while_loop",
                lambda model: model.put(model.field("WhileOptions", "body_subgraph_index"), (1 << 31) - 1),
            ),
            wrong,
        ),
        _model(
            "call-itself",
            "a WHILE whose body is the subgraph that it stands in",
            patched(
                "circle/while_loop", lambda model: model.put(model.field("WhileOptions", "body_subgraph_index"), 0)
            ),
            {"verify": 0},
        ),
        _model(
            "shape-huge",
            "a tensor of eight dimensions of 2^31-1",
            lambda: _one_tensor(b"x", [(1 << 31) - 1] * 8),
            {"verify": 0, "inspect": 0},
        ),
        _model(
            "shape-negative",
            "a tensor with sizes of -2^31",
            lambda: _one_tensor(b"x", [-(1 << 31)] * 3),
            {"verify": 0, "inspect": 0},
        ),
    ]


def _metadata_past_the_buffers() -> bytes:
    build = Build()
    buffers = [build.table({})]
    return build.model([], buffers, [], metadata=build.metadata([b"ONE_source_table", b"ONE_op_table"], 7))


def _one_tensor(name: bytes, shape: list[int]) -> bytes:
    build = Build()
    tensors = [build.tensor(b"in", shape), build.tensor(name, shape)]
    subgraph = build.subgraph(tensors, [build.operator([0, 0], [1])], [0], [1])
    return build.model([subgraph], [build.table({})], [build.code()])


def _outside() -> list[Attack]:
    wrong = refused(1)

    def external(offset: int, size: int | None = None) -> Callable[[], bytes]:
        def change(model: Patched) -> Patched:
            row = int(next(row for row, offset in enumerate(model.model.buffers.offsets.tolist()) if offset > 1))
            model.put(model.field("Buffer", "offset", row), offset, 8)
            return model if size is None else model.put(model.field("Buffer", "size", row), size, 8)

        return patched(_EXTERNAL, change)

    def options(offset: int, size: int) -> Callable[[], bytes]:
        def change(model: Patched) -> Patched:
            model.put(model.field("Operator", "large_custom_options_offset"), offset, 8)
            return model.put(model.field("Operator", "large_custom_options_size"), size, 8)

        return patched(_OPTIONS_EXTERNAL, change)

    return [
        _model(
            "external-inside",
            "external data that lies in the flatbuffer",
            external(16, 64),
            {"verify": 0, "compact": 4, "embed-origins": 0},
        ),
        _model("external-past", "external data past the end of the file", external(1 << 40), wrong),
        _model("external-wraps", "external data whose end wraps to 1 in 64 bits", external((1 << 64) - 1, 2), wrong),
        _model("external-size", "external data of 2^63 bytes", external(4096, 1 << 63), wrong),
        _model("options-past", "large custom options past the end of the file", options(1 << 33, 64), wrong),
        _model("options-wrap", "large custom options that wrap", options((1 << 64) - 8, 16), wrong),
        _model(
            "options-inside",
            "large custom options that lie in the flatbuffer",
            options(16, 64),
            {"verify": 0, "compact": 4, "embed-origins": 0},
        ),
        _model(
            "zip-bomb", "behind it a ZIP archive of 64 MiB of zeros; never unpacked, carried", _zip_bomb, harmless()
        ),
        _model("zip-cut", "an archive whose central directory is cut", _zip_cut, {"verify": 0}),
        _model("zip-false", "an end record that names a directory of 4 GiB", _zip_false, harmless()),
    ]


def _zip_bomb() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("labels.txt", bytes(64 << 20))
    return Patched(_CNN).end(content.getvalue())


def _zip_cut() -> bytes:
    return bytes(Patched(_ZIP).data).replace(b"PK\1\2", b"PK\1\3")


def _zip_false() -> bytes:
    return Patched(_CNN).end(b"PK\5\6" + bytes(8) + b"\xff" * 8 + bytes(2))


def _sharing() -> list[Attack]:
    return [
        _model(
            "subgraph-shared",
            "20,000 references to one subgraph of 100 operators",
            _shared_subgraph,
            {"verify": 3, EDIT: 3},
        ),
        _model(
            "subgraphs-empty",
            "1,000 references to one subgraph without operators, with an op table of 5,000",
            _empty_subgraphs,
            {},
        ),
        _model("tensor-shared", "one tensor 20,000 times", _shared_tensor, {"verify": 0}),
        _model(
            "names-overlap", "5,000 tensors share one name of a megabyte", _shared_name, {"verify": 0, "inspect": 3}
        ),
        _model("inputs-overlap", "5,000 operators share one list of 200,000 inputs", _shared_inputs, {EDIT: 3}),
        _model(
            "codes-overlap", "5,000 operator codes share one custom code of a megabyte", _shared_custom, {EDIT: 3}
        ),
        _model(
            "entries-many",
            "20,000 metadata entries, every other of one name",
            _many_entries,
            {"verify": 0, "strip-metadata": 0},
        ),
    ]


def _shared_subgraph() -> bytes:
    build = Build()
    tensors = [build.tensor(b"a"), build.tensor(b"b")]
    one = build.subgraph(tensors, [build.operator([0, 0], [1])] * 100, [0], [1])
    return build.model([one] * 20_000, [build.table({})], [build.code()])


def _empty_subgraphs() -> bytes:
    build = Build()
    one = build.subgraph([], [])
    table = [5000]
    for operator in range(5000):
        table += (operator, 1, 0)
    op_table = b"".join(number.to_bytes(4, "little") for number in table)
    buffers = [
        build.table({}),
        build.table({0: build.data(b"\1\0\0\0\0\0\0\0\2\0\0\0a\0")}),
        build.table({0: build.data(op_table)}),
    ]
    entries = [
        build.table({0: build.string(name), 1: ("u32", index)})
        for index, name in enumerate((b"ONE_source_table", b"ONE_op_table"), 1)
    ]
    return build.model([one] * 1_000, buffers, [build.code()], metadata=build.refs(entries))


def _shared_tensor() -> bytes:
    build = Build()
    tensors = [build.tensor(b"a")] * 20_000
    return build.model(
        [build.subgraph(tensors, [build.operator([0, 1], [2])], [0], [2])], [build.table({})], [build.code()]
    )


def _shared_name() -> bytes:
    build = Build()
    name = build.string(b"n" * (1 << 20))
    tensors = [build.tensor(name, (1,)) for _ in range(5000)]
    subgraph = build.subgraph(tensors, [build.operator([0, 1], [2])], [0], [2])
    return build.model([subgraph], [build.table({})], [build.code()])


def _shared_inputs() -> bytes:
    build = Build()
    inputs = build.ints([0] * 200_000)
    operators = [build.operator(inputs, [index + 1]) for index in range(5000)]
    tensors = [build.tensor(b"%d" % index) for index in range(5001)]
    return build.model([build.subgraph(tensors, operators, [0], [1])], [build.table({})], [build.code()])


def _shared_custom() -> bytes:
    build = Build()
    custom = build.string(b"c" * (1 << 20))
    codes = [build.table({0: ("i8", 32), 1: custom, 3: ("i32", 32)}) for _ in range(5000)]
    subgraph = build.subgraph([build.tensor(b"a"), build.tensor(b"b")], [build.operator([0], [1])], [0], [1])
    return build.model([subgraph], [build.table({})], codes)


def _many_entries() -> bytes:
    build = Build()
    names = [b"ONE_source_table" if index % 2 else b"note" for index in range(20_000)]
    subgraph = build.subgraph([build.tensor(b"a"), build.tensor(b"b")], [build.operator([0, 0], [1])], [0], [1])
    buffers = [build.table({}), build.table({0: build.data(bytes(4))})]
    return build.model([subgraph], buffers, [build.code()], metadata=build.metadata(names, 1))


def _graphs() -> list[Attack]:
    return [
        _model(
            "operator-loop",
            "an operator that reads what it writes",
            lambda: _operators([([0, 1], [1])], 2),
            {"verify": 0, "annotate-affinity": 3},
        ),
        _model(
            "operators-loop",
            "two operators that wait for each other",
            lambda: _operators([([0, 2], [1]), ([0, 1], [2])], 3),
            {"verify": 0, "annotate-affinity": 3},
        ),
        _model(
            "producers-many",
            "3,000 operators write a tensor that 3,000 read",
            lambda: _operators([([0, 0], [1])] * 3000 + [([1, 1], [2])] * 3000, 3),
            {"verify": 0, "annotate-affinity": 3},
        ),
        _model(
            "chain-long",
            "10,000 operators in a row, from the last to the first",
            lambda: _operators([([index + 1, index + 1], [index]) for index in range(10_000)], 10_001),
            {"verify": 0, "annotate-affinity": 0},
        ),
        _model(
            "outputs-many",
            "5,000 outputs that are one tensor",
            lambda: _operators([([0, 0], [1])], 2, [1] * 5_000),
            {"verify": 0},
        ),
    ]


def _operators(rows: list[tuple[list[int], list[int]]], count: int, outputs: list[int] | None = None) -> bytes:
    build = Build()
    tensors = [build.tensor(b"t%d" % index) for index in range(count)]
    operators = [build.operator(inputs, made) for inputs, made in rows]
    subgraph = build.subgraph(tensors, operators, [0], [1] if outputs is None else outputs)
    return build.model([subgraph], [build.table({})], [build.code()])


def _names() -> list[Attack]:
    return [
        _model(
            "name-commands",
            "a name that would command a terminal, with line ends",
            lambda: _one_tensor(b"\x1b]0;owned\x07\x1b[2J\r\nerror: all is well\n\x9b", [1]),
            harmless(),
        ),
        _model(
            "name-nul",
            "a name with a NUL in it",
            lambda: _one_tensor(b"a\0b", [1]),
            {"verify": 0, "embed-origins": 4},
        ),
        _model(
            "name-bytes",
            "a name that is no UTF-8",
            lambda: _one_tensor(bytes(range(128, 256)), [1]),
            harmless(),
        ),
        _model("name-long", "a name of a megabyte", lambda: _one_tensor(b"x" * (1 << 20), [1]), harmless()),
        _model("bytecode", "custom options whose map leads into itself", _bytecode, {}),
    ]


def _bytecode() -> bytes:
    build = Build()
    options = build.data(b"bytecode_offset\0bytecode_size\0" + bytes((1, 1, 2, 0x24, 0x24, 0x25, 0x01)))
    operator = build.table({0: ("u32", 0), 1: build.ints([0, 0]), 2: build.ints([1]), 5: options})
    subgraph = build.subgraph([build.tensor(b"a"), build.tensor(b"b")], [operator], [0], [1])
    return build.model([subgraph], [build.table({})], [build.code(32)])
