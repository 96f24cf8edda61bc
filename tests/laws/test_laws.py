"""The laws of the house that can be read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.support import ROOT
from tests.laws.source import PACKAGES, files, imports, name_of, text_of

# __main__ is the command by another name: `python -m circletools`.
LIBRARY = [path for path in files("circletools") if path.name != "__main__.py"]
CLI_ONLY = ("typer", "click", "argparse", "rich", "circletool_cli")
AVOIDED = ("sys.exit", "os._exit", "sys.argv", "math.prod")  # its time is quadratic: `element_count` has a bound
MOST_INLINE = 10
INLINE_WITH_REASON = re.compile(r"# noqa: PLC0415 - \w")


def forbidden(source: str) -> list[str]:
    """Return what the library must not do: print, exit, know of the command line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in ("print", "exit", "quit", "breakpoint", "input"):
            found.append(f"{node.lineno}: {node.id}")
        if isinstance(node, ast.Name) and node.id == "SystemExit":
            found.append(f"{node.lineno}: SystemExit")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            whole = f"{node.value.id}.{node.attr}"
            found += [f"{node.lineno}: {whole}"] if whole in AVOIDED else []
        if isinstance(node, ast.Import):
            found += [f"{node.lineno}: {alias.name}" for alias in node.names if alias.name.split(".")[0] in CLI_ONLY]
        if isinstance(node, ast.ImportFrom):
            first = (node.module or "").split(".")[0]
            found += [f"{node.lineno}: {first}"] if first in CLI_ONLY else []
            found += [f"{node.lineno}: {a.name}" for a in node.names if f"{first}.{a.name}" in AVOIDED]
    return found


def test_the_library_returns_values_and_leaves_printing_to_others() -> None:
    assert [f"{name_of(path)}:{what}" for path in LIBRARY for what in forbidden(text_of(path))] == []


@pytest.mark.parametrize(
    "source",
    ["print(1)", "import sys\nsys.exit(1)", "import typer", "from typer import Option", "raise SystemExit",
     "from sys import exit", "from math import prod", "def f():\n    import click.testing"],
)  # fmt: skip
def test_what_is_forbidden_is_seen(source: str) -> None:
    assert forbidden(source) != []


def inline(source: str, path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the imports inside functions, and whether they have a reason beside them."""
    lines = source.splitlines()
    for line in sorted({one.line for one in imports(source, path) if one.inside}):
        yield f"{name_of(path)}:{line}", INLINE_WITH_REASON.search(lines[line - 1]) is not None


def test_imports_inside_functions_are_few_and_have_a_reason() -> None:
    found = [one for path in files(*PACKAGES) for one in inline(text_of(path), path)]
    assert len(found) <= MOST_INLINE
    assert [place for place, reason in found if not reason] == []


def test_an_import_inside_a_function_is_seen() -> None:
    path = ROOT / "cli" / "x.py"
    assert list(inline("import a\ndef f():\n    import b  # noqa: PLC0415", path)) == [("cli/x.py:3", False)]
    assert list(inline("def f():\n    from b import c  # noqa: PLC0415 - optional", path)) == [("cli/x.py:2", True)]
    assert list(inline("if TYPE_CHECKING:\n    from b import c\nclass C:\n    import d", path)) == []


def words(source: str) -> Iterator[tuple[int, str]]:
    """Yield the identifiers and strings of a source file, without its docstrings."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield getattr(node, "lineno", 0), value
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_the_wire_knows_nothing_of_models() -> None:
    message = [(name_of(path), *word) for path in files("circletools/flatbuf") for word in words(text_of(path))]
    known = [word for word in message if "operator" in word[2].lower()]
    assert [word for word in known if word[2] != "operator_code"] == []  # a role that schema/roles.json names


def test_a_word_of_models_is_seen() -> None:
    assert list(words('"""operator"""\nx = f("the operator")')) == [(2, "x"), (2, "f"), (2, "the operator")]


# What reads a file by itself: wire, model, edits of what is behind a prefix, formats of their own, and what charges.
READS = (
    "circletools/flatbuf/", "circletools/model/", "circletools/edit/", "circletools/storage/", "circletools/trace/",
    "circletools/diff/", "circletools/metadata/", "circletools/parts/", "circletools/runtimes/",
    "circletools/numerics/", "circletools/reduction/", "circletools/html/", "circletools/asking.py",
    "circletools/judging.py", "circletools/fit/fit.py", "circletools/graph/resources.py",
    "circletools/soundness/tensor_findings.py", "circletools/origin/tracking/constants.py",
    "circletools/render/digests.py", "circletools/affinity/capability/file.py",
    "circletools/origin/exporters/patching.py", "cli/console/", "cli/main.py",
)  # fmt: skip
WRITES = ("cli/console/", "cli/main.py")
OPENED = {"Wire", "Tables", "walk", "find_base", "open", "open_source", "memmap", "mmap", "GetRootAs", "vectors_at"}
SIZES = ("budget", "size")  # what may be asked of a wire anywhere
BUILTIN = {"open", "print", "input", "help", "__import__", "exec", "eval", "compile", "globals", "__builtins__"}
BEHIND = {"__dict__", "__getattribute__", "__globals__", "__builtins__", "__subclasses__", "__loader__"}
CHANGES = {"unlink", "rename", "touch", "mkdir", "rmdir", "symlink_to", "hardlink_to", "link_to", "chmod", "lchmod"}
CONTENT = {"ct.files", "ct.metadata", "ct.surgery", "edit.signatures"}  # what goes through the product's own writers
HELD = {"_root", "octets", "wire"}  # under these names alone is a file's content held
SHOWN = {"print", "echo", "secho", "Console", "open", "breakpoint"}
SENDS = {"write_text", "write_bytes", "writelines", "tofile", "dump"}
OWN = ("resources", "__file__", "stub")  # data of the package
# Modules that only compute, and the names that only compute in those that also read or write; others are a way past.
COMPUTES = (
    "__future__|ast|bisect|circletool_cli|circletools|cli|collections|contextlib|copy|csv|dataclasses|difflib|enum"
    "|fnmatch|functools|gc|hashlib|heapq|html|importlib|inspect|itertools|math|model_explorer|multiprocessing|operator"
    r"|random|re|scipy\.(?!io|datasets).*|shlex|signal|statistics|struct|textwrap|time|types|typing|urllib\.parse"
    "|weakref|zlib"
)
NAMES = {
    "io": "StringIO", "json": "dumps|loads", "pathlib": "Path|PurePath|PurePosixPath", "sys": "modules|exit",
    "numpy": r"(?!load|save|from(file|regex)|genfromtxt|memmap|DataSource|(lib|_?core|ctypeslib)\b).*",
    "os": "PathLike|cpu_count|fsencode|fspath|getcwd|listdir|path|sched_getaffinity|sep|stat", "signal": "(?!set_).*",
    "typer": "Argument|BadParameter|Context|Exit|Option|Typer|core", "contextlib": "(?!redirect).*",
    "multiprocessing": "(?!Client|Listener|shared_memory|managers|log_to).*", "gc": "disable|freeze|collect",
    "tempfile": "TemporaryDirectory", "importlib": "(?!util|machinery).*", "warnings": "warn",  # a caller's mistake
}  # fmt: skip


def _computes(module: str, name: str = "") -> bool:
    first = module.split(".", maxsplit=1)[0]
    taken = NAMES.get(first, ".*" if re.fullmatch(COMPUTES, first) or re.fullmatch(COMPUTES, module) else "(?!)")
    return re.fullmatch(taken, name) is not None if name else first in NAMES or taken == ".*"


def aside(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what a file takes from modules, builtins and classes that read or write, under any name."""
    nodes, known = list(ast.walk(tree)), dict[str, str]()
    bound = {getattr(one, "id", "") for one in nodes if isinstance(getattr(one, "ctx", None), ast.Store)}
    for node in nodes:
        if isinstance(node, ast.Import):
            known |= {(one.asname or one.name).split(".")[0]: one.name for one in node.names}
            yield from [node] * (not all(_computes(one.name) for one in node.names))
        elif isinstance(node, ast.ImportFrom):
            pairs, origin = ((one.name, one.asname) for one in node.names), "cli" if node.level else node.module or ""
            wrong = (not _computes(origin, name) or (name in OPENED and new) for name, new in pairs)
            yield from [node] * any(wrong)
    for node in nodes:
        of, given = getattr(node, "value", None), getattr(node, "bases", [])
        if isinstance(node, ast.Call):
            given = node.args
            yield from [node] * (ast.unparse(node.func) == "getattr" and getattr(given[0], "id", "") in known)
        if isinstance(node, ast.Attribute) and isinstance(of, ast.Name) and of.id in known.keys() - bound:
            yield from [node] * (not _computes(known[of.id], node.attr))
        elif (
            (isinstance(node, ast.Name) and node.id in BUILTIN - bound)
            or any(getattr(one, "id", "") in OPENED - bound for one in given)
            or (isinstance(node, ast.Constant) and of in HELD | {"read_bytes", "read_text"})
            or HELD & set(getattr(node, "kwd_attrs", ()))
        ):
            yield node


def uncharged(source: str, name: str) -> list[str]:
    """Return what goes past the budget: a file read without its model, or text written past the one who counts it."""
    cli, tree = name.startswith("cli/"), ast.parse(source)
    sizes = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Attribute) and one.attr in SIZES}
    rooms = READS + WRITES
    found = [] if name.startswith(rooms) else [f"{name}:{getattr(one, 'lineno', 0)}" for one in aside(tree)]
    for node in ast.walk(tree):
        used = node.func if isinstance(node, ast.Call) else node
        calls = used is not node
        word = used.id if isinstance(used, ast.Name) and calls else getattr(used, "attr", "")
        of = ast.unparse(used.value) if isinstance(used, ast.Attribute) else ""
        files = word in ("read_bytes", "read_text") and of and not any(own in of for own in OWN)
        inside = of and word in HELD and id(used) not in sizes and (of, word) != ("self", "_root")
        made = (calls and word in OPENED) or (of and word in OPENED - {"open"})
        args = node.args if isinstance(node, ast.Call) and word == "import_module" else []
        names = [one.value for one in args if isinstance(one, ast.Constant)]
        loads = any(one in NAMES or not _computes(str(one)) for one in names)
        reads = files or inside or made or loads or word in BEHIND
        message = word in ("exit", "SystemExit") and re.search(r"\([^)\d]", ast.unparse(node))
        shows = cli and (message or word in ("stdout", "stderr", "warn") or (calls and word in SHOWN))
        sends = word in SENDS | CHANGES or (cli and word == "write")
        writes = shows or (sends and of not in {""} | CONTENT and (cli or not name.startswith(READS)))
        if of != "ct" and ((reads and not name.startswith(READS)) or (writes and not name.startswith(WRITES))):
            found.append(f"{name}:{getattr(node, 'lineno', 0)}")
    return found


def test_nothing_is_read_or_written_past_the_budget() -> None:
    places = [place for path in files(*PACKAGES) for place in uncharged(text_of(path), name_of(path))]
    assert [place for place in places if not place.startswith("cli/commands/rewriting.py:")] == []  # asks for isatty


@pytest.mark.parametrize(
    "source",
    ["Wire(data)", "walk(model.wire, schema)", "model._root.strings('description')", "Tables(wire, kind, at)",
     "np.frombuffer(held.octets)", "data = model.wire", "Path(name).read_bytes()", "open(name, 'rb')",
     "vars(held)['octets']", "tflite.Model.GetRootAs(data)", "np.memmap(name)", "read = Path.read_bytes",
     "from builtins import open as begin", "import io\nio.FileIO(name)", "import numpy as n\nn.fromfile(name)",
     "import numpy\nnumpy.load(name)", "from x import Wire as W", "class Own(Tables): pass", "partial(Tables, wire)",
     "getattr(model, '_root')", "map(open, names)", "from multiprocessing import shared_memory", "import subprocess",
     "from os import read", "from urllib.request import urlopen", "match held:\n    case Source(octets=raw): pass",
     "import numpy\ngetattr(numpy, kind)(name)", "values.tofile(name)", "files.open_source(name)",
     "from x import y\nW = y.Wire", "vars(model.__dict__)", "import importlib\nimportlib.import_module('io')",
     "vectors_at(wire, at, kind)", "model.__getattribute__('wire')", "import gc\ngc.get_objects()"],
)  # fmt: skip
def test_a_reader_past_the_budget_is_seen(source: str) -> None:
    assert uncharged(source, "circletools/cost/cost.py") != []


@pytest.mark.parametrize(
    "source",
    ["print(1)", "sys.stdout.write(text)", "typer.echo(text)", "Console().print(text)", "os.write(1, data)",
     "Path(out).write_text(text)", "open(out, 'w').write(text)", "model._root", "say = print", "map(print, rows)",
     "from sys import stderr", "import logging", "from typer import echo as say", "input(text)", "sys.exit(text)",
     "from warnings import showwarning", "from contextlib import redirect_stdout",
     "from warnings import warn\nwarn(text)", "Path(out).touch()", "help(text)", "breakpoint()", "out.writelines(x)"],
)  # fmt: skip
def test_a_command_past_the_budget_is_seen(source: str) -> None:
    assert uncharged(source, "cli/commands/x.py") != []


NEWER = re.compile(r"(?<!\\)(?:[*+?}]\+|\(\?>)")
"""What regular expressions of Python 3.10 have not: possessive quantifiers and atomic groups."""


def newer(source: str) -> list[str]:
    """Return the texts of a file, of those put together or given to `re`, that Python 3.10 could not read there."""
    chosen = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr) or _asks_re(node))
    words = (node.value for one in chosen for node in ast.walk(one) if isinstance(node, ast.Constant))
    texts = (word.decode("latin-1") if isinstance(word, bytes) else word for word in words)
    return [text for text in texts if isinstance(text, str) and NEWER.search(text)]


def _asks_re(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re"


def test_regular_expressions_are_those_of_python_3_10() -> None:
    found = {name_of(path): newer(text_of(path)) for path in files("circletools", "cli", "tools")}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_a_newer_regular_expression_is_seen() -> None:
    source = "re.compile(rb'a*+'), f'(?>{x}b)', re.compile('a\\\\++?'), 'a*+'"
    assert newer(source) == ["a*+", "(?>"]
