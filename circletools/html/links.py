"""Where the lines of sources are to be read: addresses made from a template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from circletools.errors import UsageError
from circletools.origin.source import SourceDetails

_ADDRESS = re.compile(r"(?!javascript:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SourceLinks:
    """A template with `{file}` and `{line}`; files below `root` are named as seen from there, as relative ones are.

    Other files have no address, and without a template none has. Raises UsageError for one without a scheme such as
    `https://`, or has no `{file}`.
    """

    template: str = ""
    root: str = ""

    def __post_init__(self) -> None:
        if self.root and not self.template:
            raise UsageError("`source_root=` is for `source_url=`")
        if self.template and not (_ADDRESS.match(self.template) and "{file}" in self.template):
            raise UsageError(
                f"{self.template!r} is no address of a source",
                hint="write it as https://example.org/main/{file}#L{line}",
            )

    def of(self, details: SourceDetails) -> str:
        """Return the address of the line that called a source, empty where it has none."""
        start = self.root.rstrip("/") + "/" if self.root else ""
        if not self.template or not details.file or (details.file[0] == "/" and not details.file.startswith(start)):
            return ""
        file = quote(details.file.removeprefix(start).encode("utf-8", "surrogateescape"), safe="/")
        return self.template.replace("{line}", str(details.line or 1)).replace("{file}", file)


NO_LINKS = SourceLinks()
