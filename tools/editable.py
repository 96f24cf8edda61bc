"""The build backend: setuptools, with an editable install that type checkers can follow.

In a wheel, `cli` is `circletool_cli` and `schema` is `circletools.schema`. For such a mapping, setuptools makes an
editable install with an import hook, which works only in Python: mypy, pyright and editors find nothing. Here, a
`.pth` file names the checkout, which contains `circletools` under its own name, and `circletool_cli` is a package
whose modules are found in `cli`. The schemas are found next to the package (`circletools.flatbuf.schema`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_CHECKOUT = Path(__file__).resolve().parents[1]
_COMMAND = '''"""The command of a checkout."""

__path__ = [{folder!r}]
__file__ = {file!r}
'''


def build_editable(
    wheel_directory: str, config_settings: Mapping[str, object] | None = None, metadata_directory: str | None = None
) -> str:
    """Write the wheel of an editable install (PEP 660); return its name."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    path = Path(wheel_directory, name)
    with ZipFile(path) as wheel:
        files = {entry: wheel.read(entry) for entry in wheel.namelist() if not entry.startswith("__editable__")}
    (record,) = (entry for entry in files if entry.endswith(".dist-info/RECORD"))
    folder = _CHECKOUT / "cli"
    command = _COMMAND.format(folder=str(folder), file=str(folder / "__init__.py"))
    files["circletool_cli/__init__.py"] = command.encode()
    files["__editable__.circletools.pth"] = f"{_CHECKOUT}\n".encode()
    files[record] = "".join(_rows(files, record)).encode()
    with ZipFile(path, "w", ZIP_DEFLATED) as wheel:
        for entry, data in files.items():
            wheel.writestr(entry, data)
    return name


def _rows(files: Mapping[str, bytes], record: str) -> Iterator[str]:
    """Yield the lines of RECORD: the path, digest and size of each file, and only the path of RECORD itself."""
    for entry, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        yield f"{entry},,\n" if entry == record else f"{entry},sha256={digest},{len(data)}\n"
