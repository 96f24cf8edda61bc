"""A program in the place of LiteRT, in another Python's environment; it does what the environment says."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

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
            if WHAT == "hang":
                time.sleep(600)
            if WHAT == "eat":
                np.zeros(6 << 30, np.uint8)
            if WHAT == "eat natively":
                print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
                os.abort()

        def get_input_details(self):
            return [{"index": 0, "dtype": np.float32, "shape": (2,)}]

        get_output_details = get_input_details

        def set_tensor(self, index, value):
            self.value = value

        def invoke(self):
            self.runs = getattr(self, "runs", 0) + 1

        def get_tensor(self, index):
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
