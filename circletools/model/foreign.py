"""Recognise files of other formats by their first bytes or archive members, and suggest a remedy.

The first bytes are from the formats' documents. ONNX and TensorFlow write protobufs, which have no magic number but
begin with field 1, the version: 1 in a SavedModel, 3 or more in a current ONNX model.
"""

from __future__ import annotations

import re

_HEAD_BYTES, _TAIL_BYTES = 512, 1 << 16
_EXPORT = "export that with litert-torch (TFLite) or TICO (Circle)"
_UNPACK = "unpack it, and use a model in it"
_UNPACK_LM = "unpack it with litert-lm-peek, and use a model in it"
_CONVERT_ONNX = "convert it with onnx2tf (TFLite) or one-import-onnx (Circle)"
_UNCOMPRESS = "decompress it first"
_CONVERT = "convert it with tf.lite.TFLiteConverter"
_BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (rb"LITERTLM", "a bundle for LiteRT-LM (.litertlm)", _UNPACK_LM),
    (rb"GGUF", "a GGUF model (llama.cpp)", f"start from the PyTorch model: {_EXPORT}"),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file, an old format of Keras models", _CONVERT),
    (rb"\x80[\x02-\x05]", "a pickle, an old format of PyTorch models", f"load it in PyTorch, then {_EXPORT}"),
    (rb".{4}ET\d\d", "an ExecuTorch program (.pte)", f"start from the PyTorch model: {_EXPORT}"),
    (rb".{4}\0{4}\{\"", "weights in safetensors", f"load them into the PyTorch model, then {_EXPORT}"),
    (rb"\x1f\x8b", "a file compressed with gzip", _UNCOMPRESS),
    (rb"\x28\xb5\x2f\xfd", "a file compressed with zstd", _UNCOMPRESS),
    (rb"\xfd7zXZ\0", "a file compressed with xz", _UNCOMPRESS),
    (rb"BZh\d1AY", "a file compressed with bzip2", _UNCOMPRESS),
    (rb".{257}ustar", "a tar archive", _UNPACK),
    (rb"version https://git-lfs", "a git-lfs pointer", "fetch the file with `git lfs pull`"),
    (rb"\s*<(?i:!doctype html|html)", "a web page", "download the file itself; a link may lead to a page about it"),
    (rb"\s*<\?xml.*<net", "an OpenVINO model (.xml)", "use the model that it was converted from"),
    (rb"\s*[\[{]\s*[\"{]", "JSON", "name the model that it describes"),
    (rb"[\t\n\r -~]*(unsigned char|uint8_t)\b", "a C array", "write its bytes to a file, as with `xxd -r -p`"),
    (rb"\x08\x01\x12", "a TensorFlow SavedModel", _CONVERT),
    (rb"\x08[\x03-\x20][\x12\x1a\x22\x28\x32\x3a\x42]", "an ONNX model", _CONVERT_ONNX),
)  # fmt: skip
_MEMBERS: tuple[tuple[bytes, str, str], ...] = (
    (rb"AndroidManifest\.xml", "an Android package", _UNPACK),
    (rb"model\.weights\.h5", "a Keras model (.keras)", _CONVERT),
    (rb"data\.pkl|archive_format", "a PyTorch model (.pt, .pt2)", f"load it in PyTorch, then {_EXPORT}"),
    (rb"\.tflite|TF_LITE_", "a bundle of models (.task)", _UNPACK),
)


def foreign_format(data: memoryview) -> tuple[str, str] | None:
    """Return the format of a file and a remedy, or None for an unknown format."""
    head = bytes(data[:_HEAD_BYTES])
    if head.startswith(b"PK\x03\x04"):
        names = head + bytes(data[-_TAIL_BYTES:])  # the list of members is at the end
        found = next(((what, how) for name, what, how in _MEMBERS if re.search(name, names)), None)
        return found or ("a ZIP archive", _UNPACK)
    matching = ((what, how) for beginning, what, how in _BEGINNINGS if re.match(beginning, head, re.DOTALL))
    return next(matching, None)
