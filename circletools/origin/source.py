"""Sources and their details: path, class, file and line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

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
