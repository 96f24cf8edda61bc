"""What is no model of its own: metadata and archives of a TFLite file, and contents behind its flatbuffer.

This is no script; the generator with TensorFlow uses it.
"""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import flatbuffers


def in_buffer_order(binary: bytes, root: Any) -> bytes:
    """Bring the contents behind the flatbuffer into the order of the buffer table; `root` is its model.

    The converter writes them one after the other without padding, in the order of a hash map. This keeps
    everything else: the flatbuffer (but for the offsets in it), where the contents begin, and the length.
    """
    buffers = [root.Buffers(index) for index in range(root.BuffersLength())]
    outside = [buffer for buffer in buffers if buffer.Offset() > 1]
    start = cursor = min(buffer.Offset() for buffer in outside)
    if sum(buffer.Size() for buffer in outside) != max(b.Offset() + b.Size() for b in outside) - start:
        raise ValueError("the converter no longer writes external buffers without gaps")
    result = bytearray(binary)
    for buffer in outside:
        size = buffer.Size()
        result[cursor : cursor + size] = binary[buffer.Offset() : buffer.Offset() + size]
        struct.pack_into("<Q", result, buffer._tab.Pos + buffer._tab.Offset(6), cursor)
        cursor += size
    return bytes(result)


def describe_model(name: str, files: list[str]) -> bytes:
    """Write the `TFLITE_METADATA` flatbuffer: a name and the list of the associated files."""
    builder = flatbuffers.Builder()
    tables = []
    for file in files:
        text = builder.CreateString(file)
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)  # AssociatedFile.name
        builder.PrependInt8Slot(2, 2, 0)  # AssociatedFile.type: labels of a tensor's axis
        tables.append(builder.EndObject())
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    vector = builder.EndVector()
    text = builder.CreateString(name)
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)  # ModelMetadata.name
    builder.PrependUOffsetTRelativeSlot(6, vector, 0)  # ModelMetadata.associated_files
    builder.Finish(builder.EndObject(), b"M001")
    return bytes(builder.Output())


def append_zip(binary: bytes, files: dict[str, bytes]) -> bytes:
    """Append a ZIP archive, stored, with offsets that count from the start of the whole file."""
    stream = io.BytesIO(binary)
    with zipfile.ZipFile(stream, "a") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # no date: the earliest that a ZIP can store
    return stream.getvalue()
