"""The page for a comparison: for each program, the graph colored by each operator's own error, and a table.

The page has no script: its Content-Security-Policy allows only inline style, and names are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from circletools.graph.build import model_graph
from circletools.html.graph import partition_layout, short
from circletools.html.report import Report
from circletools.model.model import Model
from circletools.numerics.results import Cell, Comparison
from circletools.wording import html_table

_COLORS = {"fault": "#d73027", "not_run": "#c2a5cf", "skipped": "#d9d9d9"}
_SHADES = ("#1a9850", "#91cf60", "#d9ef8b", "#fee08b")  # up to 1%, 10%, 50% and 100% of the allowed error
_LEGEND = "<p>Green to yellow: own error that rounding can explain; red: fault; violet: not run; gray: skipped</p>"
_SHOWN = ("operator_index", "code", "verdict", "own_max_abs", "own_max_steps", "own_snr_db", "inherited_max_abs",
          "sources", "file", "line", "words")  # fmt: skip
_STYLE = (
    ":root{color-scheme:light dark}body{font:14px sans-serif}td,th{padding:1px 6px;text-align:left}"
    ".wide{overflow:auto;max-width:100%}svg{border:1px solid #ccc;background:#fff}h1,h2,p{overflow-wrap:anywhere}"
)
_HEAD = (
    '<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=Content-Security-Policy content="default-src '
    "'none'; style-src 'unsafe-inline'\"><meta name=viewport content='width=device-width, initial-scale=1'>"
    f"<title>circletools compare</title><style>{_STYLE}</style><main>"
)


def numbers_html(model: Model, found: Comparison) -> Report:
    """Return the HTML page of a comparison; of two compared models, `model` is the second.

    Raises ModelFormatError if the model is broken.
    """
    body = [f"<h1>{escape(found.other or found.file)}</h1><p>reference: {escape(found.file)} on "
            f"{escape(found.reference.program)}</p>"]  # fmt: skip
    rows = found.to_rows()
    for at, column in enumerate(found.columns):
        first = found.first_own(at)
        words = "no operator is wrong" if first is None else f"first wrong operator: {first.operator} {first.code}"
        body.append(f"<h2>{escape(column.program)}: {words}</h2><p>{escape(column.failure)}</p>{_LEGEND}")
        body += _wide("Graph", _graph(model, found, at))
        table = [{name: row[name] for name in _SHOWN} for row in rows[at :: len(found.columns)]]
        body += _wide("Operators", [html_table(table, len(table))])
    return Report("".join((_HEAD, *body, "</main>")).encode("utf-8", "replace").decode())


def _wide(title: str, contents: Iterable[str]) -> Iterator[str]:
    """Yield contents in a region that is no wider than the window and can be scrolled by keyboard or touch."""
    yield f"<div class=wide role=region tabindex=0 aria-label='{title}'>"
    yield from contents
    yield "</div>"


def _graph(model: Model, found: Comparison, at: int) -> Iterator[str]:
    """Yield the operators as boxes, producers above readers, each colored by its own error."""
    if not found.operators:
        return
    layout = partition_layout(model_graph(model).graphs[found.operators[0].subgraph], None)
    least, edges = min(layout["column"]), layout["edges"]
    places = [(8 + 46 * (x - least), 8 + 34 * y) for x, y in zip(layout["column"], layout["level"], strict=True)]
    width, height = (8 + max(place[axis] for place in places) + (84, 26)[axis] for axis in (0, 1))
    yield f"<svg width={width} height={height}>"
    for source, target in zip(edges["source"], edges["target"], strict=True):
        (x, y), (left, top) = places[source], places[target]
        yield f"<line stroke='#999' x1={x + 42} y1={y + 26} x2={left + 42} y2={top} />"
    for row in found.operators:
        (x, y), cell = places[row.operator], row.cells[at]
        title = escape(f"{row.operator} {row.code} {cell.verdict} {short(', '.join(row.sources))}")
        yield f"<g><title>{title}</title><rect x={x} y={y} width=84 height=26 fill='{_color(cell)}' />"
        yield f"<text x={x + 3} y={y + 17} font-size=9>{escape(row.code[:15])}</text></g>"
    yield "</svg>"


def _color(cell: Cell) -> str:
    if cell.verdict in _COLORS or cell.own is None:
        return _COLORS.get(cell.verdict, _COLORS["skipped"])
    part = cell.own.max_abs / cell.allowed if cell.allowed else 0.0
    return _SHADES[sum(part > limit for limit in (0.01, 0.1, 0.5))]
