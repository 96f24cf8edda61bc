"""A headless Chromium, driven through its own protocol over a pipe; it needs no package and opens no port.

https://chromedevtools.github.io/devtools-protocol/ has the commands. With `--remote-debugging-pipe` the browser reads
messages from descriptor 3 and writes them to 4, JSON with a NUL after each.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    *("--hide-scrollbars", "--remote-debugging-pipe"),
)
_PATIENCE_SECONDS = 60
# Moves two descriptors to where the browser expects them, out of each other's way first, and becomes the browser.
_START = """
import fcntl, os, sys
high = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]
for place, descriptor in zip((3, 4), high):
    os.dup2(descriptor, place)
    os.close(descriptor)
os.execv(sys.argv[3], sys.argv[3:])
"""
_KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39}


def chromium() -> str | None:
    """Return the path of a Chromium: CHROMIUM names one, else the first that is on the path."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in _NAMES if (path := shutil.which(name))), None)


class Browser:
    """A browser with one page at a time. `events` has all events of the page since it was opened."""

    def __init__(self, program: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, self._out = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _START, str(theirs_in), str(theirs_out), program),
                *(*_OPTIONS, f"--user-data-dir={self._folder.name}", "about:blank"),
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._buffer, self._number = ours_in, b"", 0
        self._target = self._session = ""

    def __enter__(self) -> Browser:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the browser."""
        os.close(self._out)  # the browser ends when nobody talks to it any more
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._folder.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the page, or to the browser where there is none; return the answer."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._receive(_PATIENCE_SECONDS)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, seconds: float) -> dict[str, Any]:
        """Return the next message; keep it when it is an event."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], seconds)
            assert ready, "the browser does not answer"
            chunk = os.read(self._in, 1 << 16)
            assert chunk, "the browser has ended"
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, page: Path | str, *, width: int = 1440, height: int = 900, scheme: str = "light") -> None:
        """Open a page in a fresh tab and wait until it is ready; `scheme` is the system's: light or dark."""
        if self._session:
            self._session, old = "", self._target
            self.send("Target.closeTarget", targetId=old)
        self.events.clear()
        self._target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.resize(width, height)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")
        assert self.evaluate("document.documentElement.dataset.ready") == "yes", self.complaints()

    def resize(self, width: int, height: int) -> None:
        """Give the window a size in pixels."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"not in {_PATIENCE_SECONDS} s: {expression}"
            time.sleep(0.02)

    def cpu_seconds(self, action: Callable[[], object]) -> float:
        """Return the processor time of the page's main thread until what an action asks for is drawn."""
        self.send("Performance.enable", timeDomain="threadTicks")
        before = self._task_seconds()
        action()
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self._task_seconds() - before

    def _task_seconds(self) -> float:
        metrics = self.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    def reload(self) -> None:
        """Load the page again and wait until it is ready."""
        self.evaluate("delete document.documentElement.dataset.ready")
        self.send("Page.reload")
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = key if len(key) == 1 else {"Enter": "\r"}.get(key, "")
        code = _KEYS.get(key, ord(key[0].upper()))
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text: str) -> None:
        """Type text."""
        for letter in text:
            self.press(letter)

    def click(self, x: float, y: float) -> None:
        """Click a point of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, buttons=1)

    def click_on(self, selector: str) -> None:
        """Click the middle of an element."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'nearest'});"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.click(*box)

    def text(self, selector: str) -> str:
        """Return the text that an element shows."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def complaints(self) -> list[Any]:
        """Return what went wrong on the page: messages, exceptions, log entries."""
        self.evaluate("0")  # all earlier events have arrived now
        wanted = (
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        )
        return [event["params"] for event in self.events if event["method"] in wanted]

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for, but for those that its policy refused."""
        self.evaluate("0")
        refused = {
            event["params"]["requestId"]
            for event in self.events
            if event["method"] == "Network.loadingFailed" and event["params"].get("blockedReason") == "csp"
        }
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent" and event["params"]["requestId"] not in refused
        ]
