"""Details of a source beside its name."""

from __future__ import annotations

from typing import NamedTuple

_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib/python2")


class SourceDetails(NamedTuple):
    """Details that a source's name does not hold; empty, or 0 for the line, where it is not known.

    `path` is that of the module instance (`layers.0.attn.q`) or name scope (`model/dense`), `class_name` the class of
    that module (`torch.nn.modules.linear.Linear`). `file` and `line` are where the model's author called it, and
    `call` is what was called (`aten.linear.default`, `MatMul`).
    """

    path: str = ""
    class_name: str = ""
    file: str = ""
    line: int = 0
    call: str = ""

    @property
    def place(self) -> str:
        """The file and line, as in `net.py:42`; empty where the file is not known."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


NOTHING = SourceDetails()
"""The details of a source of which only the name is known."""


class Source(NamedTuple):
    """A source that has no number yet, and what is known of it."""

    name: str
    details: SourceDetails


AnySource = Source | str
"""A source that has no number yet; the name alone where nothing else is known."""


def is_library(file: str) -> bool:
    """Return whether Python source is in an installed package or in no file, not written by the model's author."""
    path = file.replace("\\", "/")
    return path.startswith("<") or any(part in path for part in _INSTALLED)
