"""Sources and their details: path, class, file and line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from circletools.metadata.codec import TableReader, check_ids, encode_name

Origin = frozenset[int]
"""The origin of an operator: a set of source ids; an operator that replaces several others has the ids of all.

An empty set means that the origin is unknown; tables have no entry for such an operator.
"""

UNKNOWN: Origin = frozenset()

_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")
_LEFT_OUT = frozenset(("torch", "functorch", "tico", "litert_torch", "ai_edge_torch", "onnxscript", "jax"))
_LEFT_OUT |= {"tensorflow", "keras", "tf_keras"}
_PYTHON = re.compile(r"/lib/python\d[\d.]*/")
_TYPED_IN = ("<string>", "<stdin>", "<ipython-input")
_CELL = re.compile(r".*/ipykernel_\d+/(\d+)\.py")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/|\\\\")


class SourceDetails(NamedTuple):
    """Details that a source's name does not include; unknown details are empty, or 0 for the line.

    `path` is the path of the module instance (`layers.0.attn.q`) or the name scope (`model/dense`), and `class_name`
    the class of that module (`torch.nn.modules.linear.Linear`). `file` and `line` give the innermost line outside
    PyTorch and exporters; `call` is the function called there (`aten.linear.default`, `MatMul`). If that line is in a
    library (`timm/layers/mlp.py`), `caller` is the innermost line in the author's own code, such as `net.py:12`.
    """

    path: str = ""
    class_name: str = ""
    file: str = ""
    line: int = 0
    call: str = ""
    caller: str = ""

    @property
    def place(self) -> str:
        """The file and line, as in `net.py:42`, and those of the caller; empty if the file is unknown."""
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return f"{place} from {self.caller}" if self.caller else place

    def relative(self, root: str) -> SourceDetails:
        """Return the details with file paths changed by `relative_file`."""
        file, colon, line = self.caller.rpartition(":")
        caller = f"{relative_file(file, root)}{colon}{line}"
        return self._replace(file=relative_file(self.file, root), caller=caller)


NOTHING = SourceDetails()
"""The details of a source that has only a name."""


class Source(NamedTuple):
    """A source without a number, and its details."""

    name: str
    details: SourceDetails


AnySource = Source | str
"""A source without a number; a plain name if nothing else is known."""


def relative_file(file: str, root: str) -> str:
    """Return the path of a Python file without parts that are specific to one machine.

    The path of a file in a package starts with the package (`timm/layers/mlp.py`), and that of a file below `root` is
    relative to `root`. Any other absolute path is reduced to the file name. Relative paths are unchanged.
    """
    path = file.replace("\\", "/")
    cell = _CELL.fullmatch(path)
    if cell:
        return _cell(file) or f"<cell {cell[1]}>"
    if not _ABSOLUTE.match(path):
        return file
    below = root.replace("\\", "/").rstrip("/") + "/"
    installed = _INSTALLED.match(path)
    if installed:
        return path[installed.end() :]
    return path.removeprefix(below) if path.startswith(below) else path.rpartition("/")[2]


def _cell(file: str) -> str:
    """Return the label of a cell, `<cell In[3]>`, if this process runs the notebook; otherwise an empty string."""
    try:
        return f"<cell {sys.modules['IPython'].get_ipython().compile.format_code_name(file)[1]}>"
    except (KeyError, AttributeError, TypeError):  # no notebook, another interface, or another kernel's file
        return ""


def line_of(frames: Iterable[tuple[str, int]]) -> tuple[str, int, str]:
    """Return the file and line of the innermost frame that is not PyTorch's or an exporter's, and its caller.

    The outermost frame comes first. If there is no frame in other code, the result is `("", 0, "")`.
    """
    file, line, caller = "", 0, ""
    for name, number in frames:
        path = name.replace("\\", "/")
        installed = _INSTALLED.match(path)
        if installed:
            if path[installed.end() :].partition("/")[0] in _LEFT_OUT:
                continue
        elif _PYTHON.search(path) or (path.startswith("<") and not path.startswith(_TYPED_IN)):
            continue
        else:
            caller = f"{name}:{number}"
        file, line = name, number
    return file, line, "" if caller == f"{file}:{line}" else caller


# --- details as bytes, stored in the `CIRCLETOOLS_sources` metadata entry ---------------------------------------
#     [version = 2: u32][string count: u32] ([shared][length][data: length bytes])*
#     [source count] ([source id][check: u16][path][class][file][line][call][caller])*
#
# Numbers without a type are LEB128: seven bits per byte, the lowest first; the top bit is set in all bytes but the
# last. `shared` is the number of leading bytes that a string has in common with the previous one. The id, path and
# line of a source are stored as differences from the previous source, zigzag-encoded (0, -1, 1, -2, ...). Strings are
# numbered from 1, in order; 0 is the empty string. The check is the lower half of the CRC-32 of the source's name.


DETAILS_TABLE = "CIRCLETOOLS_sources"
_VERSION = 2
_PAIR = Struct("<II")
_CHECK = Struct("<H")
_MOST_BITS = 35  # enough for a u32, or the difference of two


def encode_details(details: Mapping[int, SourceDetails], sources: Mapping[int, str]) -> bytes:
    """Encode the details of sources that have any, by source id.

    Raises UsageError for an id or line that is not a u32, or a string with a NUL.
    """
    written = {source: details[source] for source in sorted(details) if source in sources}
    written = {source: known for source, known in written.items() if known != NOTHING}
    # Put strings next to those with the longest common prefix: paths in order of appearance, the others sorted.
    texts_of = {source: (one.class_name, one.file, one.call, one.caller) for source, one in written.items()}
    others = sorted(set(chain.from_iterable(texts_of.values())))
    strings = dict(zip(dict.fromkeys(("", *others, *(one.path for one in written.values()))), count(), strict=False))
    entries, before = bytearray(_leb(len(written))), (0, 0, 0)
    for source, known in written.items():
        check_ids((source, known.line))
        now = (source, strings[known.path], known.line)
        own, path, line = (_leb(2 * d if d >= 0 else -2 * d - 1) for d in map(int.__sub__, now, before))
        class_name, file, call, caller = (_leb(strings[one]) for one in texts_of[source])
        entries += b"".join((own, _CHECK.pack(_check(sources[source])), path, class_name, file, line, call, caller))
        before = now
    texts, last = bytearray(_PAIR.pack(_VERSION, len(strings) - 1)), b""
    for text in (encode_name(one, "a string") for one in strings if one):
        shared = next((at for at, both in enumerate(zip(last, text, strict=False)) if both[0] != both[1]), None)
        shared = min(len(last), len(text)) if shared is None else shared
        texts += _leb(shared) + _leb(len(text) - shared) + text[shared:]
        last = text
    return bytes(texts + entries)


def _leb(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def decode_details(
    data: bytes | memoryview, sources: Mapping[int, str], charge: Callable[[int], None] = lambda _: None
) -> dict[int, SourceDetails]:
    """Decode the details of sources by id; omit entries that no longer match the name of their source.

    `charge` is called with the size of each string. Raises TableFormatError.
    """
    reader = TableReader(data, DETAILS_TABLE)
    strings, last = [""], b""
    for _ in range(reader.header(_VERSION)):
        shared, length = _number(reader), _number(reader)
        if shared > len(last):
            raise reader.error("the prefix that a string shares is longer than the previous string", reader.position)
        charge(shared + length)
        last = last[:shared] + bytes(reader.take(length))
        strings.append(last.decode("utf-8", "surrogateescape"))
    details: dict[int, SourceDetails] = {}
    source = path = line = 0
    for index in range(_number(reader)):
        at = reader.position
        step = _difference(reader)
        source += step
        check = _CHECK.unpack(reader.take(_CHECK.size))[0]
        path += _difference(reader)
        class_name, file = _number(reader), _number(reader)
        line += _difference(reader)
        call, caller = _number(reader), _number(reader)
        if index and step <= 0:
            raise reader.error(f"duplicate entry for source {source}", at)
        if not 0 <= path < len(strings) or max(class_name, file, call, caller) >= len(strings):
            raise reader.error(f"source {source} refers to a string that does not exist", at)
        if line < 0 or source < 0:
            raise reader.error(f"source {source} has a negative number", at)
        if source in sources and check == _check(sources[source]):
            details[source] = SourceDetails(
                strings[path], strings[class_name], strings[file], line, strings[call], strings[caller]
            )
    reader.finish()
    return details


def _number(reader: TableReader) -> int:
    found = 0
    for shift in range(0, _MOST_BITS, 7):
        byte = reader.take(1, "a number is truncated")[0]
        found |= (byte & 127) << shift
        if byte < 128:
            return found
    raise reader.error("a number is too long", reader.position)


def _difference(reader: TableReader) -> int:
    number = _number(reader)
    return -(number + 1) // 2 if number % 2 else number // 2


def _check(name: str) -> int:
    return crc32(encode_name(name)) & 0xFFFF
