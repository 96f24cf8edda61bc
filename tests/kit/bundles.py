"""Bundles of models, as MediaPipe and LiteRT-LM have them, built without the product."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Sequence

import flatbuffers

BLOCK_BYTES = 16384


def task(files: Sequence[tuple[str, bytes]], alignment: int = 4) -> bytes:
    """Return an archive of stored files whose data is aligned, as MediaPipe packs them."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name)
            info.extra = b"" if alignment == 1 else bytes(-(stream.tell() + 30 + len(name)) % alignment)
            archive.writestr(info, data)
    return stream.getvalue()


def litertlm(sections: Sequence[tuple[str, int, bytes]]) -> bytes:
    """Return a bundle of LiteRT-LM: (model_type, data type, data), each at the next multiple of a block."""
    places, at = [], BLOCK_BYTES
    for _, _, data in sections:
        places.append((at, at + len(data)))
        at = -(-(at + len(data)) // BLOCK_BYTES) * BLOCK_BYTES
    builder = flatbuffers.Builder(1024)
    objects = []
    for (name, kind, _), (begin, end) in zip(sections, places, strict=True):
        items = []
        if name:
            value, key = builder.CreateString(name), builder.CreateString("model_type")
            builder.StartObject(1)
            builder.PrependUOffsetTRelativeSlot(0, value, 0)
            text = builder.EndObject()
            builder.StartObject(3)
            builder.PrependUOffsetTRelativeSlot(0, key, 0)
            builder.PrependUint8Slot(1, 9, 0)
            builder.PrependUOffsetTRelativeSlot(2, text, 0)
            items.append(builder.EndObject())
        listed = vector(builder, items)
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(0, listed, 0)
        builder.PrependUint64Slot(1, begin, 0)
        builder.PrependUint64Slot(2, end, 0)
        builder.PrependUint8Slot(3, kind, 0)
        objects.append(builder.EndObject())
    listed = vector(builder, objects)
    for _ in range(2):  # SectionMetadata, then the root, whose other slot is empty
        builder.StartObject(2)
        builder.PrependUOffsetTRelativeSlot(0 if _ == 0 else 1, listed, 0)
        listed = builder.EndObject()
    builder.Finish(listed)
    header = bytes(builder.Output())
    file = bytearray(b"LITERTLM" + struct.pack("<IIIIQ", 1, 5, 0, 0, 32 + len(header)) + header)
    for (begin, _), (_, _, data) in zip(places, sections, strict=True):
        file += bytes(begin - len(file)) + data
    return bytes(file)


def vector(builder: flatbuffers.Builder, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())
