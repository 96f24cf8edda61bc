"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterable
from itertools import compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, settings

from tests.kit.presence import lacking, missing, need_extra, needs_more, not_imported
from tests.kit.public import SHARED, public_models
from tests.kit.support import bytes_of, own_models, title

# The same examples everywhere; HYPOTHESIS_PROFILE=explore looks for new ones. The tests set their own time limits.
_quiet = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", parent=_quiet, derandomize=True, max_examples=30)
settings.register_profile("explore", parent=_quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

NO_PUBLIC_MODELS = "no public models beside this checkout"


gc.disable()  # until all tests are known: nothing of them is garbage


def pytest_collection_finish() -> None:
    """Collect garbage again, but not among the tests: a search takes longer than many of them."""
    if "CIRCLETOOLS_TESTS_ONE_IN" not in os.environ:  # the oldest Hypothesis calls tests flaky after that
        gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Give the programs that tests start the default signals, and let them compile the library once.

    `nohup` ignores SIGHUP, and a shell ignores SIGINT for what it runs in the background. What is ignored stays so in
    a new program, but what is handled has its default there.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        compiled = TemporaryDirectory(prefix="circletools-compiled-", ignore_cleanup_errors=True)
        config.add_cleanup(compiled.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = compiled.name
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


class _Module(pytest.Module):
    """A file of tests, which is skipped with the reason where a tool that it is about needs another system."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            name = not_imported(str(error))
            if name is None:
                raise
            pytest.skip(f"this system has no {name}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Collect a file of tests."""
    return cast("pytest.Module", _Module.from_parent(parent, path=module_path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs more than the product, pytest and hypothesis; keep one in CIRCLETOOLS_TESTS_ONE_IN.

    A test of many models runs on a third of them, a different one for each test, unless another variable is set.
    """
    if "CIRCLETOOLS_TESTS_EVERY_MODEL" not in os.environ:
        items[:] = _sampled(items)
    items[:] = items[:: int(os.environ.get("CIRCLETOOLS_TESTS_ONE_IN", "1"))]
    for item in items if config.option.markexpr else ():  # it takes seconds, and only -m asks for marks
        if isinstance(item, pytest.Function):
            fixtures = (one.func for found in item._fixtureinfo.name2fixturedefs.values() for one in found)
            given = getattr(item, "callspec", None)
            if needs_more([item.function, *fixtures, *(given.params.values() if given else ())]):
                item.add_marker("runtime")


def _sampled(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the items without those about a model that is left to other tests."""
    given = [getattr(getattr(item, "callspec", None), "params", {}).values() for item in items]
    numbers = [
        next((_NUMBERS[one] for one in some if isinstance(one, str | Path) and one in _NUMBERS), -1) for some in given
    ]
    names = [item.nodeid.partition("[")[0] for item in items]
    rows = Counter(name for name, number in zip(names, numbers, strict=True) if number >= 0)
    due = [
        number < 0 or rows[name] < _MANY or (number + crc32(name.encode())) % 3 == 0
        for name, number in zip(names, numbers, strict=True)
    ]
    return list(compress(items, due))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a test of what the product does with a package that is not installed, or that needs another system."""
    try:
        return (yield)
    except Exception as error:
        if name := lacking(error):
            pytest.skip(f"this system has no {name}")
        name = missing(error)
        if name is None:
            need_extra(str(error))
            raise
        pytest.skip(f"{name} is not installed")


def _models() -> dict[str, list[ParameterSet]]:
    """Return the models of each fixture that a test is run for."""
    public = [pytest.param(path, id=f"public/{title(path)}") for path in public_models()]
    if not public:
        public = [pytest.param(None, id="public", marks=pytest.mark.skip(reason=NO_PUBLIC_MODELS))]
    own = [pytest.param(path, id=title(path)) for path in own_models()]
    return {"own_model": own, "public_model": public, "any_model": [*own, *public]}


_MODELS = _models()
_NUMBERS = {
    key: number for number, path in enumerate([*own_models(), *public_models()]) for key in (path, title(path))
}
"""The models by path and by title, as parameters of tests name them."""
_MANY = 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each model: `own_model` of testdata, `public_model`, or `any_model` of both."""
    for name, models in _MODELS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, models)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of public material; the test is skipped where there is none."""
    if not SHARED.is_dir():
        pytest.skip(NO_PUBLIC_MODELS)
    return SHARED


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a model of 4 MB, which takes some time to save; it is alone in its folder."""
    path = tmp_path / "large" / "in.circle"
    path.parent.mkdir()
    path.write_bytes(bytes_of("circle/mlp") + bytes(range(256)) * (16 << 10))
    os.utime(path, (0, 10**9))  # so that a change shows also where the clock of the file system is coarse
    return path
