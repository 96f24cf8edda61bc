"""A command that needs too much processor time or memory is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from circletool_cli.console import bounds

from tests.kit.support import path_of

if not hasattr(__import__("signal"), "setitimer"):
    pytest.skip("this system has no timers", allow_module_level=True)

_ENDLESS = {
    "time": "number = 0\nwhile True: number += 1",
    "memory": "kept = []\nwhile True: kept.append(bytearray(1 << 20))",
    "callback": "from weakref import ref\nr = ref(set(), lambda _: [0 for _ in range(9**9)])\nwhile r: pass",
}
_RUN = """
import sys
from circletool_cli.console import bounds
bounds.SECONDS, bounds.BYTES = {seconds}, {bytes}
from circletool_cli.main import main
main()
"""


def _python(code: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CIRCLETOOL_LIMITS"} | variables
    return subprocess.run(
        [sys.executable, "-c", code, *words], check=False, capture_output=True, text=True, env=environment, timeout=99
    )


@pytest.mark.parametrize("what", _ENDLESS)
def test_endless_commands_are_stopped(what: str) -> None:
    if what == "memory" and not Path("/proc/self/statm").exists():
        pytest.skip("this system does not say how much memory a process has")
    limits = "SECONDS, bounds.BYTES = 60, 50 << 20" if what == "memory" else "SECONDS, bounds.RESERVE = 0.2, 99"
    code = "import sys\nfrom circletool_cli.console import bounds\nbounds.enable()\n"
    code += f"bounds.{limits}\nbounds.watch([sys.executable])\ntry:\n "
    code += _ENDLESS[what].replace("\n", "\n ") + "\nexcept bounds.Exceeded as exceeded:\n print(exceeded.error)"
    ended = _python(code)
    assert ("MiB of memory" if what == "memory" else "after 0 s of processor time") in ended.stdout
    assert "CIRCLETOOL_LIMITS=off" in ended.stdout
    assert not ended.stderr


@pytest.mark.parametrize("rest", ["check {}", "check {} {}", "compact {} OUT", "report {} -o OUT"])
def test_a_command_ends_with_one_error_and_without_an_output(rest: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [str(out) if word == "OUT" else word.replace("{}", str(path_of("circle/mlp"))) for word in rest.split()]
    ended = _python(_RUN.format(seconds=-1000, bytes=1 << 40), *words)
    assert ended.returncode == 3
    assert "of processor time, more than an input of" in ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    assert not list(tmp_path.iterdir())
    assert _python(_RUN.format(seconds=-1000, bytes=1 << 40), *words, CIRCLETOOL_LIMITS="off").returncode == 0


def test_a_command_is_no_longer_watched_once_its_output_has_its_name(tmp_path: Path) -> None:
    (tmp_path / ".circletool-x").touch()
    code = "import os, signal, sys\nfrom circletool_cli.console import bounds\nbounds.enable()\nbounds.watch(['x'])\n"
    code += "print(os.replace(*sys.argv[1:]), signal.getitimer(signal.ITIMER_VIRTUAL)[0])"
    assert _python(code, str(tmp_path / ".circletool-x"), str(tmp_path / "out")).stdout == "None 0.0\n"


@pytest.mark.parametrize(("value", "times", "left"), [("8", 4, "32"), ("8", 0, "0"), ("off", 4, "0"), ("0", 4, "0")])
def test_a_command_multiplies_the_limits_of_the_user(
    value: str, times: int, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(bounds.VARIABLE, value)
    bounds.allow(times)
    assert os.environ[bounds.VARIABLE] == left


@pytest.mark.parametrize("value", ["2.5", "9" * 400, "on"])
def test_other_values_are_refused(value: str) -> None:
    ended = _python(
        _RUN.format(seconds=4, bytes=1 << 40), "check", str(path_of("circle/mlp")), CIRCLETOOL_LIMITS=value
    )
    assert ended.returncode == 2
    assert "CIRCLETOOL_LIMITS must be 'off' or a whole number" in ended.stderr
