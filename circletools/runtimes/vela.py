"""Arm's compiler Vela, for Ethos-U55, -U65 and -U85: what runs on the NPU and what falls back to the CPU.

Importing this module imports the compiler, which is an optional package.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ethosu.vela import vela

from circletools.runtimes.protocol import Answer, Placed, RefusedError, Request, Verdict, mark, printed

_REASON = re.compile(r"^Warning \(.*?\) operator: (\w+), ofm: '(.*)'\nReason: ((?:.+\n?)*)", re.MULTILINE)
_CPU = re.compile(r"^   CPU: \w+ = (.*?) \(outputs", re.MULTILINE)
_NONE_LEFT = re.compile(r"^CPU operators = 0\b", re.MULTILINE)
_MADE_UP = re.compile(r"placeholder-for-(\d+)-OFM|<unnamed>.*")
_FOLDED = {"SHAPE", "STRIDED_SLICE", "PACK"}  # Vela refuses them first, and computes them if their inputs are known
_INVALID = re.compile(r"Error: (\w+) '(.*?)' Does not have|operation \((\w+)\) could not run")


def loads(request: Request) -> Verdict:
    """Return whether Vela compiles the model; operators may fall back to the CPU."""
    _compile(request)
    return Verdict("ok")


def placement(request: Request) -> Verdict:
    """Return the operators that run on the NPU and, for the others, the reason that Vela gives."""
    text = _compile(request)
    left = _CPU.findall(text)
    operators = [one for one in _reasons(text, "cpu") if one.code not in _FOLDED or one.tensor in ("", *left)]
    if _NONE_LEFT.search(text):  # refused operators only compute shapes that Vela knows;
        operators = [one for one in operators if one.code in {"", "CALL_ONCE"}]  # CALL_ONCE is kept, not counted
    operators += [Placed("cpu", tensor=name) for name in left if not _MADE_UP.fullmatch(name)]
    return Verdict("ok", "", tuple(operators), "npu")


def run(_request: Request) -> Answer:
    """Raise RefusedError, since Vela is a compiler and runs no models."""
    return Answer([], [], "vela is a compiler: it runs no models")


def _reasons(text: str, device: str) -> Iterator[Placed]:
    for code, tensor, words in _REASON.findall(text):
        made_up = _MADE_UP.fullmatch(tensor)  # Vela invents names for unnamed and missing outputs
        index = int(made_up[1]) if made_up and made_up[1] else None
        output = "" if made_up else tensor
        yield Placed(device, " ".join(words.split()), None, index, code.removesuffix("None"), output)


def _compile(request: Request) -> str:
    """Compile a model; return the output, which the compiler's core writes to standard output, bypassing Python."""
    since = mark()
    with tempfile.TemporaryDirectory() as directory:
        options = ["--accelerator-config", request.variant, "--show-cpu-operations", "--output-dir", directory]
        saved = os.dup(1)
        os.dup2(2, 1)
        try:
            status = vela.main([str(Path(request.model)), *options])
        except BaseException as error:  # any exception: the compiler raises its own errors, asserts and exits
            raise _refused(printed(since), error) from error
        finally:
            sys.stdout.flush()
            ctypes.CDLL(None).fflush(None)
            os.dup2(saved, 1)
            os.close(saved)
    if status:
        raise _refused(printed(since), RuntimeError(f"vela exited with status {status}"))
    return printed(since)


def _refused(text: str, error: BaseException) -> RefusedError:
    words = " ".join(str(error).replace("Failed to parse TFLite file", "").split()) or type(error).__name__
    if isinstance(error, LookupError | AttributeError | TypeError | ArithmeticError):  # a crash: words say little
        words = f"{type(error).__name__}: {words}"
    named = [Placed("", words, code=code or other, tensor=tensor) for code, tensor, other in _INVALID.findall(words)]
    return RefusedError(words, named or [one for one in _reasons(text, "") if one.code in words])
