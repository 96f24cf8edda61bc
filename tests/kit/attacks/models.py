"""Hostile models, patched: their structure, their indices, what they say lies outside the flatbuffer, their sizes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

from tests.kit.attacks.attack import Attack, Patched, harmless, model_attack, patched, refused
from tests.kit.attacks.made import metadata_past_the_buffers, one_tensor

_CNN, _INCEPTION, _EXTERNAL = "circle/cnn", "circle/inception", "circle/mlp_external"
_OPTIONS_EXTERNAL, _ZIP = "tflite/custom_options_external", "tflite/zip_tail"


def models() -> list[Attack]:
    """Return all of them."""
    return [*_structure(), *_vectors(), *_indices(), *_callees(), *_outside()]


def _structure() -> list[Attack]:
    broken = refused()
    return [
        model_attack("empty", "no byte at all", lambda: b"", {**broken, "inspect": 3}),
        model_attack("header-only", "a header and nothing else", lambda: b"\4\0\0\0CIR0", {**broken, "inspect": 3}),
        model_attack(
            "root-outside",
            "the root offset leads past the end",
            patched(_CNN, lambda model: model.put(0, 1 << 30)),
            {**broken, "inspect": 3},
        ),
        model_attack(
            "root-cycle", "the root offset leads to itself", patched(_CNN, lambda model: model.put(0, 0)), broken
        ),
        model_attack(
            "cycle",
            "a subgraph's tensors lead back to the model",
            patched(_CNN, lambda model: model.refer(model.field("SubGraph", "tensors"), model.table("Model"))),
            broken,
        ),
        model_attack(
            "vtable-is-table",
            "a table is its own vtable",
            patched(_CNN, lambda model: model.put(model.table("Tensor", 3), 0)),
            {},
        ),
        model_attack(
            "vtable-outside",
            "a vtable past the end",
            patched(_CNN, lambda model: model.put(model.table("Operator", 2), -(1 << 30))),
            broken,
        ),
        model_attack(
            "vtable-before",
            "a vtable before the start",
            patched(_CNN, lambda model: model.put(model.table("Operator", 2), 1 << 30)),
            broken,
        ),
        model_attack(
            "vtable-long",
            "a vtable of 65534 bytes",
            patched(_CNN, lambda model: model.put(model.vtable("Model"), 65534, 2)),
            broken,
        ),
        model_attack(
            "field-outside",
            "a field 65534 bytes into its table",
            patched(_CNN, lambda model: model.put(model.vtable("Model") + 8, 65534, 2)),
            broken,
        ),
    ]


def _vectors() -> list[Attack]:
    broken = refused()
    return [
        model_attack(
            "vector-billion",
            "a vector of 10^9 references",
            patched(_CNN, lambda model: model.put(model.vector("Model", "subgraphs"), 10**9)),
            broken,
        ),
        model_attack(
            "vector-wraps",
            "a length that wraps to little when multiplied in 32 bits",
            patched(_CNN, lambda model: model.put(model.vector("Tensor", "shape"), (1 << 30) + 1)),
            broken,
        ),
        model_attack(
            "string-unended",
            "a string that ends without a NUL",
            patched(_CNN, lambda model: model.put(model.vector("Tensor", "name"), 3)),
            broken,
        ),
        model_attack(
            "union-other",
            "options whose type differs from the union's code",
            patched(_CNN, lambda model: model.put(model.field("Operator", "builtin_options_type"), 11, 1)),
            {},
        ),
        model_attack(
            "union-unknown",
            "a union code that no schema has",
            patched(_CNN, lambda model: model.put(model.field("Operator", "builtin_options_type"), 200, 1)),
            {"structure": 0, "inspect": 0},
        ),
        model_attack(
            "overlap",
            "an operator's inputs are the vtable of another table",
            patched(_CNN, lambda model: model.refer(model.field("Operator", "inputs"), model.vtable("Model") & ~3)),
            {},
        ),
        model_attack(
            "prefix-forged", "a prefix marker that names a place in the middle", lambda: _forged(64), {"structure": 0}
        ),
        model_attack(
            "prefix-nested", "a prefix marker in front of a whole other model", _prefix_nested, {"structure": 0}
        ),
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
        model_attack(
            "tensor-index",
            "an operator reads tensor 2^31-1",
            patched(_CNN, lambda model: model.put(model.vector("Operator", "inputs") + 4, (1 << 31) - 1)),
            wrong,
        ),
        model_attack(
            "tensor-negative",
            "an operator reads tensor -2",
            patched(_CNN, lambda model: model.put(model.vector("Operator", "inputs") + 4, -2)),
            wrong,
        ),
        model_attack(
            "output-negative",
            "an operator writes tensor -2^31",
            patched(_CNN, lambda model: model.put(model.vector("Operator", "outputs") + 4, -(1 << 31))),
            wrong,
        ),
        model_attack(
            "code-index",
            "an operator of code 2^32-1",
            patched(_INCEPTION, lambda model: model.put(model.field("Operator", "opcode_index"), -1)),
            wrong,
        ),
        model_attack(
            "buffer-index",
            "a tensor's buffer is the number of buffers: the next one to be appended",
            patched(_CNN, lambda model: model.put(model.field("Tensor", "buffer"), len(model.model.buffers))),
            wrong,
        ),
        model_attack(
            "metadata-buffer",
            "an entry whose buffer does not exist",
            metadata_past_the_buffers,
            {**wrong, "dump-origins": 3},
        ),
    ]


def _callees() -> list[Attack]:
    wrong = refused(1)
    return [
        model_attack(
            "signature-subgraph",
            "a signature of subgraph 2^32-1",
            patched(
                "circle/two_signatures", lambda model: model.put(model.field("SignatureDef", "subgraph_index"), -1)
            ),
            wrong,
        ),
        model_attack(
            "call-missing",
            "a WHILE whose body is subgraph 2^31-1",
            patched(
                "circle/while_loop",
                lambda model: model.put(model.field("WhileOptions", "body_subgraph_index"), (1 << 31) - 1),
            ),
            wrong,
        ),
        model_attack(
            "call-itself",
            "a WHILE whose body is the subgraph that it stands in",
            patched(
                "circle/while_loop", lambda model: model.put(model.field("WhileOptions", "body_subgraph_index"), 0)
            ),
            {"structure": 0},
        ),
        model_attack(
            "shape-huge",
            "a tensor of eight dimensions of 2^31-1",
            lambda: one_tensor(b"x", [(1 << 31) - 1] * 8),
            {"structure": 0, "inspect": 0},
        ),
        model_attack(
            "shape-negative",
            "a tensor with sizes of -2^31",
            lambda: one_tensor(b"x", [-(1 << 31)] * 3),
            {"structure": 0, "inspect": 0},
        ),
    ]


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
        model_attack(
            "external-inside",
            "external data that lies in the flatbuffer",
            external(16, 64),
            {"structure": 0, "compact": 4, "embed-origins": 0},
        ),
        model_attack("external-past", "external data past the end of the file", external(1 << 40), wrong),
        model_attack(
            "external-wraps", "external data whose end wraps to 1 in 64 bits", external((1 << 64) - 1, 2), wrong
        ),
        model_attack("external-size", "external data of 2^63 bytes", external(4096, 1 << 63), wrong),
        model_attack("options-past", "large custom options past the end of the file", options(1 << 33, 64), wrong),
        model_attack("options-wrap", "large custom options that wrap", options((1 << 64) - 8, 16), wrong),
        model_attack(
            "options-inside",
            "large custom options that lie in the flatbuffer",
            options(16, 64),
            {"structure": 0, "compact": 4, "embed-origins": 0},
        ),
        model_attack(
            "zip-bomb", "behind it a ZIP archive of 64 MiB of zeros; never unpacked, carried", _zip_bomb, harmless()
        ),
        model_attack("zip-cut", "an archive whose central directory is cut", _zip_cut, {"structure": 0}),
        model_attack("zip-false", "an end record that names a directory of 4 GiB", _zip_false, harmless()),
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
