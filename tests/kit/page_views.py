"""The page in a browser: what its tests look at."""

from __future__ import annotations

from tests.kit.browser import Browser, chromium

PROGRAM = chromium()


def settled(browser: Browser) -> None:
    """Wait until what was asked for is drawn."""
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def tab(browser: Browser, name: str) -> None:
    browser.click_on(f"#tab-{name}")
    settled(browser)
    assert browser.evaluate(f"!document.getElementById('panel-{name}').hidden")


def details(browser: Browser) -> str:
    return browser.text("#details")


def focused(browser: Browser) -> str:
    return str(browser.evaluate("document.activeElement.id || document.activeElement.textContent"))


def pixels(browser: Browser, selector: str = "#canvas") -> list[int]:
    """Return the sums of the channels over all pixels of a canvas."""
    found: list[int] = browser.evaluate(
        f"""(() => {{ const c = document.querySelector({selector!r});
        const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {{ willReadFrequently: true }});
        copy.drawImage(c, 0, 0);
        const d = copy.getImageData(0, 0, c.width, c.height).data; const s = [0, 0, 0];
        for (let i = 0; i < d.length; i += 4) for (let k = 0; k < 3; k++) s[k] += d[i + k]; return s; }})()"""
    )
    return found
