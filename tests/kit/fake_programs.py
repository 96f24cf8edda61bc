"""Programs in the place of runtimes: in another Python's environment, or as modules of this one."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import circletools.runtimes

_INTERPRETER = """
    import ctypes, hashlib, os, sys, tempfile, time
    from pathlib import Path
    import numpy as np

    WHAT = os.environ["FAKE"]

    class OpResolverType:
        AUTO = BUILTIN_WITHOUT_DEFAULT_DELEGATES = BUILTIN_REF = 0

    class Interpreter:
        def __init__(self, model_path, num_threads, experimental_op_resolver_type):
            self.data = open(model_path, 'rb').read(1 << 16)
            if WHAT == "unreadable":
                raise ValueError("no such format")

        def allocate_tensors(self):
            if WHAT == "refuse":
                raise RuntimeError("no kernel for this.Node number 1 (TANH) failed to prepare.")
            if WHAT == "elsewhere":
                raise RuntimeError("not now.Node number 9 (TfLiteXNNPackDelegate) failed to prepare.")
            if WHAT == "crash":
                Path(tempfile.gettempdir(), "left").touch()
                print(tempfile.gettempdir(), file=sys.stderr, flush=True)
                os.abort()
            if WHAT == "complain":
                print("x" * 499 + "yz", file=sys.stderr, flush=True)
                os.abort()
            if WHAT == "hang":
                time.sleep(600)
            if WHAT == "eat":
                np.zeros(6 << 30, np.uint8)
            if WHAT == "eat natively":
                print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
                os.abort()

        InputIndices = OutputIndices = lambda self: np.array([0])
        TensorType, TensorSize = lambda self, *_: np.float32, lambda self, *_: np.array([2])
        _interpreter = property(lambda self: self)

        def set_tensor(self, index, value):
            self.value = value

        def invoke(self):
            self.runs = getattr(self, "runs", 0) + 1

        def get_tensor(self, index):
            if WHAT == "limits":
                import resource
                return np.array([os.getpid(), resource.getrlimit(resource.RLIMIT_AS)[0]], np.int64)
            if WHAT == "layout":
                return np.frombuffer(hashlib.sha256(self.data).digest(), np.float32)[:2]
            return self.value + self.runs
"""


def fake_litert(folder: Path, what: str) -> str:
    """Return the command of a Python that has a LiteRT which does `what`."""
    package = folder / "ai_edge_litert"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "interpreter.py").write_text(textwrap.dedent(_INTERPRETER))
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return f"env 'FAKE={what}' 'PYTHONPATH={paths}' '{sys.executable}'"


def adapter(name: str, modules: Mapping[str, Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import `circletools.runtimes.NAME` again, with modules in the place of its program's; nothing of it stays."""
    for path, values in modules.items():
        module = ModuleType(path)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, path, module)
        parent, _, last = path.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    path = f"circletools.runtimes.{name}"
    monkeypatch.setattr(circletools.runtimes, name, None, raising=False)
    monkeypatch.setitem(sys.modules, path, ModuleType(path))
    del sys.modules[path]
    return import_module(path)


@contextmanager
def printing_to(path: Path) -> Iterator[None]:
    """Let standard error be a file, as it is in the process that asks a program; not for a fixture to hold open."""
    saved = os.dup(2)
    with path.open("w+b") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
