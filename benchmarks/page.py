"""Measures the report: what it costs to make, how large it is, and when a browser shows it.

    python -m benchmarks.page [--rounds 5] [--json result.json]

Needs a Chromium, as tests/html/test_page_browser.py does. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.models import many_operators
from benchmarks.process import run
from circletools.html.graph import picture
from circletools.model.model import open_model
from tests.kit.browser import Browser, chromium

SIZES = (1000, 5000, 100_000)
SHOWN_MS = 2000
LAYOUT_MS = 1000
AIMED_AT = 5000
_DEVICES = ("--devices", "npu,cpu", "--set", "op:MUL=cpu", "--default", "npu")
_TIMEOUT = 600
_DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_SHOW_ALL = "[...document.querySelectorAll('#tools button')].find((one) => one.textContent === 'Show all').click()"
_FIND = (
    "(() => { const box = document.getElementById('search'); box.value = 'conv';"
    " box.dispatchEvent(new Event('input')); })()"
)


@dataclass
class Row:
    """What one size cost, the least of all rounds; a browser's times are wall-clock, the others the processor's."""

    operators: int
    megabytes: float
    layout_ms: float
    command_s: float
    private_mb: float
    first_paint_ms: float
    shown_ms: float
    graph_ms: float
    all_ms: float
    search_ms: float

    @property
    def met(self) -> bool:
        """Whether the targets are met, which are for one size."""
        return self.operators != AIMED_AT or (self.shown_ms <= SHOWN_MS and self.layout_ms <= LAYOUT_MS)


def measure(operators: int, rounds: int, browser: Browser, folder: Path) -> Row:
    """Make a model with two devices in turns and its page, and look at it."""
    plain, model, page = folder / "plain.circle", folder / "model.circle", folder / "page.html"
    many_operators(plain, operators, circle=True)
    tool = str(Path(sys.executable).with_name("circletool"))
    made = run([tool, "annotate-affinity", str(plain), str(model), *_DEVICES, "--mode", "epochs"], _TIMEOUT)
    if made.failure:
        raise SystemExit(made.failure)
    never = float("inf")
    row = Row(operators, 0, never, never, 0, never, never, never, never, never)
    for _ in range(rounds):
        before = _cpu_seconds()
        done = run([tool, "report", str(model), "-o", str(page)], _TIMEOUT)
        if done.failure:
            raise SystemExit(done.failure)
        row.command_s = min(row.command_s, _cpu_seconds() - before)
        row.private_mb = max(row.private_mb, done.peak_kb / 1024)
        row.layout_ms = min(row.layout_ms, _layout_ms(model))
        _look(browser, page, row)
    row.megabytes = page.stat().st_size / 1e6
    return row


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _layout_ms(path: Path) -> float:
    from circletools.affinity.read import read_affinity  # noqa: PLC0415
    from circletools.graph.build import graph_of  # noqa: PLC0415

    with open_model(path) as model:
        affinity = read_affinity(model)
        assert affinity is not None
        begin = time.process_time()
        picture(graph_of(model, 0), affinity.subgraphs[0])
        return 1000 * (time.process_time() - begin)


def _look(browser: Browser, page: Path, row: Row) -> None:
    browser.open(page)
    painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    browser.wait(f"({painted}) > 0")
    row.first_paint_ms = min(row.first_paint_ms, float(browser.evaluate(painted)))
    loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    row.shown_ms = min(row.shown_ms, float(browser.evaluate(loaded)))
    row.graph_ms = min(row.graph_ms, _drawn(browser, "document.getElementById('tab-graph').click()"))
    row.all_ms = min(row.all_ms, _drawn(browser, _SHOW_ALL))
    _drawn(browser, _FIND)  # the first time makes the list that is searched
    row.search_ms = min(row.search_ms, _drawn(browser, _FIND))


def _drawn(browser: Browser, action: str) -> float:
    """Do something on the page; return the milliseconds until the second frame after it."""
    script = (
        f"(async () => {{ const t = performance.now(); {action}; await {_DRAWN}; return performance.now() - t; }})()"
    )
    return float(browser.evaluate(script))


def main() -> None:
    """Measure all sizes and print a table."""
    parser = argparse.ArgumentParser(description="Measure the report.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    args = parser.parse_args()
    program = chromium()
    if program is None:
        raise SystemExit("no Chromium on the path, nor named by CHROMIUM")
    print(
        "| operators | MB | layout ms | command CPU s | private MB | first paint ms | shown ms | graph ms "
        "| all of it ms | search ms | met? |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    rows = []
    with tempfile.TemporaryDirectory() as folder, Browser(program) as browser:
        for operators in SIZES:
            row = measure(operators, args.rounds, browser, Path(folder))
            rows.append(row)
            met = ("yes" if row.met else "NO") if operators == AIMED_AT else ""
            print(
                f"| {operators:,} | {row.megabytes:.1f} | {row.layout_ms:.0f} | {row.command_s:.2f} | "
                f"{row.private_mb:.0f} | {row.first_paint_ms:.0f} | {row.shown_ms:.0f} | {row.graph_ms:.0f} | "
                f"{row.all_ms:.0f} | {row.search_ms:.0f} | {met} |",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    sys.exit(not all(row.met for row in rows))


if __name__ == "__main__":
    main()
