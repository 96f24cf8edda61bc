"""The page for a comparison: SNR in execution order, the graph coloured by each operator's own error, and a table.

The page has no script: its Content-Security-Policy allows only inline style, and names are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from circletools.graph.build import model_graph
from circletools.html.graph import picture, short
from circletools.model.model import Model
from circletools.numerics.results import Cell, Comparison, Difference
from circletools.wording import html_table

_BEST_DB, _WIDTH, _HEIGHT = 150.0, 900, 160  # the precision of float32, which different values never reach
_COLORS = {"fault": "#d73027", "not_run": "#c2a5cf", "skipped": "#d9d9d9"}
_SHADES = ("#1a9850", "#91cf60", "#d9ef8b", "#fee08b")  # up to 1 %, 10 %, 50 % and 100 % of the allowed error
_LEGEND = "<p>Green to yellow: own error that rounding can explain; red: fault; violet: not run; grey: skipped</p>"
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


def numbers_html(model: Model, found: Comparison) -> bytes:
    """Return the HTML page of a comparison; of two compared models, `model` is the second.

    Raises ModelFormatError if the model is broken.
    """
    body = [f"<h1>{escape(found.other or found.file)}</h1><p>reference: {escape(found.file)} on "
            f"{escape(found.reference.program)}</p>"]  # fmt: skip
    rows = found.to_rows()
    for at, column in enumerate(found.columns):
        cells = [row.cells[at] for row in found.operators]
        first = found.first_own(at)
        words = "no operator is wrong" if first is None else f"first wrong operator: {first.operator} {first.code}"
        body += [
            f"<h2>{escape(column.program)}: {words}</h2><p>{escape(column.failure)}</p>",
            *_wide("SNR", _plot(cells)),
        ]
        body += [_LEGEND, *_wide("Graph", _graph(model, found, at))]
        table = [{name: row[name] for name in _SHOWN} for row in rows[at :: len(found.columns)]]
        body += _wide("Operators", [html_table(table, len(table))])
    return "".join((_HEAD, *body, "</main>")).encode("utf-8", "replace")


def _wide(title: str, contents: Iterable[str]) -> Iterator[str]:
    """Yield contents in a region that is no wider than the window and can be scrolled by keyboard or touch."""
    yield f"<div class=wide role=region tabindex=0 aria-label='{title}'>"
    yield from contents
    yield "</div>"


def _plot(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a plot of SNR in decibels, in execution order: own in blue, inherited in orange."""
    yield f"<p>SNR from 0 to {_BEST_DB:g} dB in execution order; blue: own, orange: inherited</p>"
    yield f"<svg role=img aria-label=SNR width={_WIDTH} height={_HEIGHT}>"
    for color, every in (("#fd8d3c", [one.inherited for one in cells]), ("#2171b5", [one.own for one in cells])):
        points = " ".join(
            f"{at * _WIDTH / max(1, len(cells) - 1):.1f},{_HEIGHT * (1 - _decibels(one) / _BEST_DB):.1f}"
            for at, one in enumerate(every)
            if one is not None
        )
        yield f"<polyline fill=none stroke='{color}' points='{points}'/>"
    yield "</svg>"


def _decibels(one: Difference) -> float:
    return _BEST_DB if one.snr_db is None and not one.unequal else min(_BEST_DB, max(0.0, one.snr_db or 0.0))


def _graph(model: Model, found: Comparison, at: int) -> Iterator[str]:
    """Yield the operators as boxes, producers above readers, each coloured by its own error."""
    if not found.operators:
        return
    layout, edges, _ = picture(model_graph(model).graphs[found.operators[0].subgraph], None)
    columns, levels = (layout.column - layout.column.min()).tolist(), layout.level.tolist()
    places = [(8 + 46 * x, 8 + 34 * y) for x, y in zip(columns, levels, strict=True)]
    width, height = (8 + max(place[axis] for place in places) + (84, 26)[axis] for axis in (0, 1))
    yield f"<svg width={width} height={height}>"
    for source, target in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
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
