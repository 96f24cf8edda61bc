"""What the tests of the report share: models with everything on them, odd names, and a page taken apart."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from circletools.diff.difference import compare_models
from circletools.html.difference import difference_html
from circletools.html.document import page_document, read_times
from circletools.html.html import page_html
from circletools.html.report import report_html
from circletools.model.model import open_model
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails
from tests.kit.affinity_support import affinity, annotated, with_affinity
from tests.kit.command_support import run
from tests.kit.exports_support import codes_of, named
from tests.kit.origin_support import embedded
from tests.kit.support import ROOT, bytes_of, edited

SOURCE_URL = "https://example.org/{file}#L{line}"
NOT_UTF8 = "bytes\udcff\udc80"
ODD_NAMES = (
    "</script><script>document.title = 'taken'</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "]]>&amp;'\"`${document.title = 'taken'}",
    "javascript:document.title='taken'",
    "turned\u202egnp.exe\u2066",
    "שלום/عالم",
    NOT_UTF8,
    "line\u2028and\nlines\x1b[31m",
    "long" * 2500,
    "@@document@@",
    "__proto__",
    "",
)


def full(name: str = "circle/transformer_block") -> bytes:
    """Return a model with origins, and with two devices in turns by operator code."""
    return with_affinity(
        embedded(bytes_of(name)), ["npu", "cpu"], "op:*SOFTMAX=cpu", "op:TRANSPOSE=cpu", default="npu"
    )


def odd() -> bytes:
    """Return a model with odd names of tensors, sources, devices and metadata."""
    placed = "bytes__"  # in place of what the builder cannot write
    names = [placed if name == NOT_UTF8 else name for name in ODD_NAMES]
    data = embedded(named(*names).replace(placed.encode(), NOT_UTF8.encode("utf-8", "surrogateescape")))
    count = len(ODD_NAMES)
    given = affinity([ODD_NAMES[0], ODD_NAMES[2]], ([index % 2 for index in range(count)], list(range(count))))
    return edited(annotated(data, given), lambda edit: edit.set_metadata(ODD_NAMES[0], b"value"))


def document_of(data: bytes, *traces: Path, name: str = "model.circle") -> dict[str, Any]:
    """Return the document of a page, as the page holds it."""
    with open_model(data) as model:
        document = page_document(model, name, [read_times(str(trace)) for trace in traces])
    loaded: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    return loaded


def page_of(data: bytes, *traces: Path, name: str = "model.circle") -> bytes:
    """Return a page."""
    return page_html(document_of(data, *traces, name=name)).encode()


def small(folder: Path) -> bytes:
    """Return a page with every view and few operators: lines of sources, times, devices, what a target refuses."""
    details = {0: SourceDetails("up", "nn.Linear", "net.py", 3), 1: SourceDetails("down", file="/other.py", line=4)}
    sets = {0: frozenset({0}), 2: frozenset({1})}
    origins = Origins({0: "up::linear", 1: "down::linear"}, (sets,), details=details)
    data = with_affinity(embedded(bytes_of("circle/mlp"), origins), ["npu", "cpu"], "op:SOFTMAX=cpu", default="npu")
    traces = onert_trace(folder, codes_of(data)), BENCHMARK
    with open_model(data) as model:
        return report_html(model, traces, on=("tflm", "ethos-u55"), source_url=SOURCE_URL).html


def difference_of(before: bytes | Path, after: bytes | Path) -> bytes:
    """Return the page of a difference."""
    with open_model(before) as old, open_model(after) as new:
        return difference_html(compare_models(old, new), old, new).html


def onert_trace(folder: Path, codes: list[str], executions: int = 3) -> Path:
    """Write a trace in onert's form for operators of subgraph 0: the operator of index i takes i + 1 us."""
    events, now = [], 1000
    graph, operator = {"tid": "$0 sess, $0 subg"}, {"tid": "$0 sess, $0 subg, cpu"}
    for _ in range(executions):
        events.append(graph | {"name": "Graph", "ph": "B", "ts": str(now)})
        for index, code in enumerate(codes):
            run = operator | {"name": f"@{index} {''.join(part.title() for part in code.split('_'))}"}
            events += [run | {"ph": "B", "ts": str(now)}, run | {"ph": "E", "ts": str(now + index + 1)}]
            now += index + 1
        events.append(graph | {"name": "Graph", "ph": "E", "ts": str(now)})
    path = folder / f"trace_{executions}.chrome.json"
    path.write_text(json.dumps({"traceEvents": [*events, {}]}), encoding="utf-8")
    return path


BENCHMARK = ROOT / "testdata" / "trace" / "benchmark.html"


class Page(HTMLParser):
    """A page as a parser of HTML sees it: the elements in order, their attributes, what is in some of them."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.contents: dict[str, list[str]] = {}
        self._within: list[str] = []
        self.feed(page.decode("utf-8"))
        self.close()
        assert self._within == [], f"not closed: {self._within}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "input", "br"):
            self._within.append(tag)
            self.contents.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._within.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._within:
            self.contents[self._within[-1]][-1] += data

    @property
    def document(self) -> dict[str, Any]:
        """The document in the data block."""
        loaded: dict[str, Any] = json.loads(self.contents["script"][0])
        return loaded

    @property
    def policy(self) -> str:
        """The Content-Security-Policy."""
        return next(
            value for tag, name, value in self.attributes if (tag, name) == ("meta", "content") and "src" in value
        )


def json_of(*arguments: str | Path) -> dict[str, Any]:
    """Return a command's JSON."""
    document: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return document
