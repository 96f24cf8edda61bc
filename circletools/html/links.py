"""Links to source lines, made from a template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from circletools.errors import UsageError
from circletools.origin.source import SourceDetails

_ADDRESS = re.compile(
    r"(?=.*\{file\})(?=.*\{line\})(?!javascript:|data:)(https?://[^/{}\s]+[/?#]|(?!https?:)[a-z][a-z0-9+.-]*://)"
    r"(\{file\}|\{line\}|[^{}\s])*",
    re.IGNORECASE,
)
_EXAMPLE = "https://example.org/main/{file}#L{line}"


@dataclass(frozen=True, slots=True)
class SourceLinks:
    """A template with `{file}` and `{line}`; files below `root` are named relative to it, and so are relative paths.

    Other files have no address; without a template no file has one. Raises UsageError if the template has no scheme
    such as `https://`, no host, no `{file}` or `{line}`, or other words in braces.
    """

    template: str = ""
    root: str = ""

    def __post_init__(self) -> None:
        if self.root and not self.template:
            raise UsageError("`source_root=` requires `source_url=`")
        if self.template and not _ADDRESS.fullmatch(self.template):
            message = f"`source_url=` {self.template!r} is not an address with {{file}} and {{line}}"
            raise UsageError(message, hint=f"write it as {_EXAMPLE}")

    def of(self, details: SourceDetails) -> str:
        """Return the address of the line that called a source, empty if it has none."""
        start = self.root.rstrip("/") + "/" if self.root else ""
        if not self.template or not details.file or (details.file[0] == "/" and not details.file.startswith(start)):
            return ""
        file = quote(details.file.removeprefix(start).encode("utf-8", "surrogateescape"), safe="/")
        return self.template.replace("{line}", str(details.line or 1)).replace("{file}", file)


NO_LINKS = SourceLinks()
