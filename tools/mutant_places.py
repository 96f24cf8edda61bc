"""Small mistakes in a module: a changed comparison, operator, small constant or condition.

Code that only states types or formats text is not changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
COMPUTED = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "//", ast.LShift: ">>",
    ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "&",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a file: the bytes from `start` to `stop` become `text`; `first_line` shows the place.

    `on_import`: the code runs only when the module is imported, or when a cached result is computed. `number`
    distinguishes mutants of a file that would have the same name.
    """

    path: Path
    line: int
    lines: range
    start: int
    stop: int
    text: str
    was: str
    first_line: str
    on_import: bool
    number: int

    @property
    def name(self) -> str:
        """Return the mutant as one line, which does not change if lines are added before it."""
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{self.path.relative_to(ROOT)}: {self.first_line}: {self.was} -> {self.text}{again}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    quiet, lines, inside = _annotations(tree), _statements(tree), _in_functions(tree)
    numbers: Counter[tuple[str, str, str]] = Counter()

    def made(node: ast.expr, text: str) -> Mutant:
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        was = " ".join(source[start:stop].decode().split())
        first_line = source[starts[node.lineno - 1] : starts[node.lineno]].decode().strip()
        numbers[first_line, was, text] += 1
        on_import, number = id(node) not in inside, numbers[first_line, was, text]
        return Mutant(path, node.lineno, lines[id(node)], start, stop, text, was, first_line, on_import, number)

    for node in ast.walk(tree):
        if id(node) in quiet:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield made(node, f"({sides[0]}) {COMPARED[type(node.ops[0])]} ({sides[1]})")
        elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _texts(node):
            yield made(node, f"(({ast.unparse(node.left)}) {COMPUTED[type(node.op)]} ({ast.unparse(node.right)}))")
        elif isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1 << 32:
            yield made(node, str(node.value + 1))
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield made(node, str(not node.value))
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield made(node, "(" + word.join(f"({ast.unparse(value)})" for value in node.values) + ")")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield made(node, f"bool({ast.unparse(node.operand)})")


def _statements(tree: ast.Module) -> dict[int, range]:
    """Return, for each expression, the lines of its statement; for a compound statement, those of its header."""
    found: dict[int, range] = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt | ast.ExceptHandler | ast.match_case):
            body: list[ast.stmt] = getattr(statement, "body", [])
            head = statement.pattern if isinstance(statement, ast.match_case) else statement
            last = body[0].lineno if body else (head.end_lineno or head.lineno) + 1
            lines = range(head.lineno, max(last, head.lineno + 1))
            for node in ast.walk(statement):
                known = found.get(id(node))
                if known is None or known.start <= lines.start:
                    found[id(node)] = lines
    return found


def _in_functions(tree: ast.Module) -> set[int]:
    """Return the nodes that run at every call of a function: not its definition, nor functions that cache results."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
            if any(text == "cache" or text.startswith("lru_cache") for text in decorators):
                continue
            body = node.body if isinstance(node.body, list) else [node.body]
            found |= {id(inner) for part in body for inner in ast.walk(part)}
    return found


def _annotations(tree: ast.AST) -> set[int]:
    """Return the nodes that are types, decorators or parts of formatted text, or that only assert facts."""
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            parts += node.decorator_list
            parts.append(getattr(node, "returns", None))
        if isinstance(node, ast.FormattedValue):
            parts.append(node.format_spec)
        if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: only an assertion
            parts.append(node.value)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            parts.append(node.test)
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id[:1].isupper()
        ):
            value = node.value
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):  # a type alias
                parts.append(value)
        for part in parts:
            if part is not None:
                found |= {id(inner) for inner in ast.walk(part)}
    return found


def _texts(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )
