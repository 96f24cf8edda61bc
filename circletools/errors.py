"""All exceptions, and the exit status of each class.

`CircleToolsError` covers all errors that circletools raises on purpose:
* `UsageError` (2): the request is invalid (an unknown subgraph, a bad selector).
* `InvalidInputError` (3): a file cannot be read, or is not what it claims to be. `ModelFormatError`: the FlatBuffers
  structure or an index of a model is broken. `TableFormatError`: a metadata table (origins, stamp) is malformed.
* `EditError` (4): the input is valid, but the edit cannot be made on it. `OutputError`: the result cannot be written.
"""

from __future__ import annotations

_LONGEST_NAME = 200
_LONGEST = 1500  # the maximum number of characters in each part of an error; a file may have names of any length


class CircleToolsError(Exception):
    """An error with a location and a suggestion.

    `location` is a path such as `subgraphs[0].operators[5].inputs`, a file and line, or a byte offset; `hint`
    suggests a remedy. Both are optional; `str(error)` includes them. `names_file` means that the location begins with
    a file name, so callers that read several files add none, and `concerns_all` that all files would give this error.
    `exit_code` is the exit status of a command that fails with this error.
    """

    exit_code, concerns_all = 3, False

    def __init__(self, message: str, *, location: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint
        self.names_file: bool = False

    def name_file(self, name: str) -> None:
        """Put a file's name in front of the location, unless it already has one; `-` means standard input."""
        name = "<standard input>" if name == "-" else name
        if not self.names_file and self.location != name:
            self.location = name if self.location is None else f"{name}: {self.location}"
        self.names_file = True

    def __str__(self) -> str:
        """Return `location: message (hint)`."""
        parts = self.message, self.location or "", self.hint or ""
        message, location, hint = (shortened(one, _LONGEST) for one in parts)
        text = f"{location}: {message}" if location else message
        return f"{text} ({hint})" if hint else text


def shortened(text: str, longest: int = _LONGEST_NAME) -> str:
    """Shorten a string from a file to about `longest` characters by leaving out its middle."""
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 2 :]}"


class UsageError(CircleToolsError):
    """The request is invalid, regardless of the file's contents."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A program or release in the request is unknown or not installed, so it is invalid for every file."""

    concerns_all = True


class InvalidInputError(CircleToolsError):
    """A file cannot be read, or is not what it claims to be."""


class ModelFormatError(InvalidInputError):
    """The model's FlatBuffers structure is broken, or an index in it is out of range.

    `offset` is the byte offset in the file, if known.
    """

    def __init__(
        self, message: str, *, offset: int | None = None, location: str | None = None, hint: str | None = None
    ) -> None:
        if offset is not None:
            message = f"{message} at byte {offset}"
        super().__init__(message, location=location, hint=hint)
        self.offset = offset


class TableFormatError(InvalidInputError):
    """A metadata table is malformed; `offset` is the byte offset in the table."""

    def __init__(self, message: str, *, offset: int, location: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{message} at byte {offset}", location=location, hint=hint)
        self.offset = offset


class EditError(CircleToolsError):
    """The input is valid, but this edit cannot be made on it."""

    exit_code = 4


class OutputError(EditError):
    """The result cannot be written; `location` names the output."""
