"""Measure which operators, tensor types and features each TFLite runtime in the package index supports.

    python -m tools.measure.requirements --wheels DIR            measure, and write circletools/requires/table.json
    python -m tools.measure.requirements --wheels DIR --check    measure, and exit with 1 if the file would change

Wheels missing in DIR are downloaded. Each is unpacked and run by a Python of its version, which is searched for as
`python3.9` and so on, and among those of pyenv. An operator code is tried in a file that contains only this code,
since a runtime looks up all codes, used or not, before it builds anything. Versions are tried from 1 to MOST, across
gaps (BROADCAST_TO begins with 2).

The file:

    runtimes   name -> the package that was measured, oldest first
    operators  code -> [the lowest version, the highest version in each runtime, or 0 if it has none]
    types      tensor type -> index of the first runtime that supports it
    features   feature -> index of the first runtime since which all read it correctly, if any does
    early      feature -> indices of older runtimes that read it correctly
    wrong      feature -> indices of runtimes that load it, but compute wrong values
    custom     the custom codes that all of these runtimes resolve
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from circletools.flatbuf.schema import load_schema
from circletools.requires.table import BLOCKWISE, ELSEWHERE, OUTSIDE
from tests.kit.build import Build, Code, Table

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "circletools" / "requires" / "table.json"
WORKER = Path(__file__).parent / "resolver_worker.py"
MOST = 32
"""The highest version that is tried; no runtime has versions above 14."""
TFLITE = ("2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0", "2.13.0", "2.14.0")
LITERT = ("1.0.1", "1.1.2", "1.2.0", "1.3.0", "1.4.0", "2.0.3", "2.1.0", "2.1.6", "2.2.0", "2.3.0")
PACKAGES = [f"tflite-runtime=={one}" for one in TFLITE] + [f"ai-edge-litert=={one}" for one in LITERT]
PIP = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:")
PYTHONS = ("3.11", "3.10", "3.9")
CUSTOM = ("TFLite_Detection_PostProcess", "Mfcc", "AudioSpectrogram", "NumericVerify", "MaxPoolingWithArgmax2D",
          "MaxUnpooling2D", "Convolution2DTransposeBias", "RandomStandardNormal", "Roll", "Rfft2d", "Irfft2d",
          "HashtableFind", "TFSentencepieceTokenizeOp", "ethos-u", "GroupNorm", "AvgPool3D", "MaxPool3D",
          "UnsortedSegmentMax", "Atan2", "Cumsum")  # fmt: skip
"""Custom codes that occur in public models or in TFLite's source."""
NOT_RESOLVED = re.compile("unresolved custom op|Select TensorFlow op")


def main() -> None:
    """Measure, and write the table or compare it with the file."""
    parser = argparse.ArgumentParser(prog="tools.measure.requirements", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--wheels", required=True, type=Path, help="directory for wheels and environments")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the file would change")
    options = parser.parse_args()
    text = dump(measure(options.wheels)) + "\n"
    same = TABLE.exists() and TABLE.read_text() == text
    print(f"{TABLE.relative_to(ROOT)}: {'as measured' if same else 'differs' if options.check else 'written'}")
    if options.check:
        sys.exit(not same)
    TABLE.write_text(text)


def measure(wheels: Path) -> dict[str, Any]:
    """Return the table."""
    schema = load_schema("tflite")
    codes = {number: name for number, name in schema.enums["BuiltinOperator"].items() if name != "CUSTOM"}
    pairs = [(name, version) for name in codes.values() for version in range(1, MOST + 1)]
    types = list(schema.enums["TensorType"].values())
    features = feature_models()
    cases = [
        *(case(code_model(Code(name, version)), "build") for name, version in pairs),
        *(case(type_model(name), "allocate") for name in types),
        *(case(model, step) for model, step, _ in features.values()),
        *(case(custom_model(name), "allocate") for name in CUSTOM),
    ]
    answers = {package: ask(wheels, package, cases) for package in PACKAGES}
    bounds = np.cumsum([0, len(pairs), len(types), len(features), len(CUSTOM)])
    parts = [[row[start:end] for row in answers.values()] for start, end in pairwise(bounds.tolist())]
    versions, typed, read, custom = parts
    right = {
        name: [close(row[at], expected) for row in read] for at, (name, (*_, expected)) in enumerate(features.items())
    }
    return {
        "runtimes": {runtime_name(package): package for package in PACKAGES},
        "operators": dict(operators(pairs, versions)),
        "types": supported({name: [row[at] == "" for row in typed] for at, name in enumerate(types)}),
        "features": supported(right),
        "early": {name: early for name, some in right.items() if (early := before(some))},
        "wrong": {
            name: wrong
            for at, (name, some) in enumerate(right.items())
            if (wrong := [of for of, row in enumerate(read) if isinstance(row[at], list) and not some[of]])
        },
        "custom": [
            name
            for at, name in enumerate(CUSTOM)
            if not any(NOT_RESOLVED.search(str(row[at])) or row[at] is None for row in custom)
        ],
    }


def runtime_name(package: str) -> str:
    """Return the name of a runtime, such as litert-2.1.6."""
    name, version = package.split("==")
    return f"{'tflite' if name == 'tflite-runtime' else 'litert'}-{version}"


def operators(pairs: Sequence[tuple[str, int]], rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield each code with its lowest version, and its highest in each runtime; those between are accepted too."""
    for name in dict.fromkeys(name for name, _ in pairs):
        places = [(at, version) for at, (code, version) in enumerate(pairs) if code == name]
        taken = [[version for at, version in places if row[at] == ""] for row in rows]
        highest = [max(one, default=0) for one in taken]
        if not any(highest):
            continue
        lowest = min(one[0] for one in taken if one)
        assert all(one == list(range(lowest, most + 1)) for one, most in zip(taken, highest, strict=True) if one), (
            name
        )
        assert highest == sorted(highest), f"{name}: a newer runtime takes less"
        yield name, [lowest, highest if len(set(highest)) > 1 else highest[0]]


def supported(taken: dict[str, list[bool]]) -> dict[str, int]:
    """Return the index of the first runtime since which all support a feature, for the features that they support."""
    refused = {name: [at for at, one in enumerate(some) if not one] for name, some in taken.items() if some[-1]}
    return {name: max(some, default=-1) + 1 for name, some in refused.items()}


def before(taken: Sequence[bool]) -> list[int]:
    """Return the indices of runtimes that support a feature, and are older than one that does not."""
    return [at for at, one in enumerate(taken) if one and not all(taken[at:])]


def close(values: Any, expected: Sequence[float]) -> bool:
    """Return whether values are the expected ones, up to the rounding of a quantized kernel."""
    return isinstance(values, list) and bool(np.allclose(values, expected, rtol=0.02, atol=0.02))


# --- models -------------------------------------------------------------------------------------------------


def case(model: bytes, step: str) -> dict[str, str]:
    """Return a case for the worker process."""
    return {"model": base64.b64encode(model).decode(), "step": step}


def code_model(code: Code) -> bytes:
    """Return a model with an operator code, but no operators."""
    build = Build()
    build.code(code)
    build.graph()
    return build.to_bytes()


def type_model(name: str) -> bytes:
    """Return a model that returns its input, a tensor of this type."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1,), name)
    graph.ends([x], [x])
    return build.to_bytes()


def custom_model(name: str) -> bytes:
    """Return a model with one custom operator."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", (1,)), graph.tensor("y", (1,))
    graph.operator(Code("CUSTOM", 1, name), [x], [y], table=None)
    graph.ends([x], [y])
    return build.to_bytes()


def feature_models() -> dict[str, tuple[bytes, str, list[float]]]:
    """Return, for each feature, a model that has it, the step to try, and the expected output."""
    data, expected = blockwise()
    return {
        OUTSIDE: (outside(), "run", [1.25, 2.5]),
        BLOCKWISE: (data, "run", expected),
        ELSEWHERE: (elsewhere(), "compile", [1.25, 2.5]),
    }


def elsewhere() -> bytes:
    """Return an ADD of a constant in the file `values`, which the worker writes next to the model."""
    build = Build()
    graph = build.graph()
    x, c, y = graph.tensor("x", (2,)), graph.tensor("c", (2,), external_buffer=1), graph.tensor("y", (2,))
    graph.operator("ADD", [x, c], [y])
    graph.ends([x], [y])
    build.model.external_buffer_groups = [Table("ExternalBufferGroup", name="values")]
    build.model.external_buffers = [Table("ExternalBuffer", id=1, group=0, offset=0, length=8)]
    return build.to_bytes()


def outside() -> bytes:
    """Return an ADD of a constant after the flatbuffer."""
    value = np.array([1, 2], np.float32).tobytes()
    place = 4096
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (2,))
    c = graph.tensor("c", (2,), buffer=build.buffer(offset=place, size=len(value)))
    y = graph.tensor("y", (2,))
    graph.operator("ADD", [x, c], [y])
    graph.ends([x], [y])
    return build.to_bytes().ljust(place, b"\0") + value


def blockwise() -> tuple[bytes, list[float]]:
    """Return a FULLY_CONNECTED with int4 weights and a scale for each block of 32, and its result."""
    data = (ROOT / "testdata" / "tflite" / "blockwise_int4.tflite").read_bytes()
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    given = interpreter.get_input_details()[0]
    interpreter.set_tensor(
        given["index"], (np.arange(64, dtype=np.float32) % 5 * 0.25 + 0.25).reshape(given["shape"])
    )
    interpreter.invoke()
    return data, interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).ravel().tolist()


# --- runtimes -----------------------------------------------------------------------------------------------


def ask(wheels: Path, package: str, cases: Sequence[dict[str, str]]) -> list[Any]:
    """Return a runtime's answers to the cases."""
    folder, python = prepared(wheels, package)
    asked, answers = folder / "cases.json", folder / "answers.json"
    asked.write_text(json.dumps(cases))
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    subprocess.run([python, str(WORKER), str(asked), str(answers)], env=environment, check=True, capture_output=True)
    found: list[Any] = json.loads(answers.read_text())
    return found


def prepared(wheels: Path, package: str) -> tuple[Path, str]:
    """Return the folder of an unpacked package, and its Python; download missing files."""
    name, version = package.split("==")
    stem = f"{name.replace('-', '_')}-{version}"
    wheels.mkdir(parents=True, exist_ok=True)
    for python in PYTHONS:
        if not any(wheels.glob(f"{stem}-*.whl")):
            subprocess.run(
                [*PIP, "--dest", str(wheels), "--python-version", python, *platforms(), package],
                check=False,
                capture_output=True,
            )
    wheel = next(wheels.glob(f"{stem}-*.whl"), None)
    if wheel is None:
        raise SystemExit(f"{package}: no wheel for Python {', '.join(PYTHONS)}")
    folder = wheels / "unpacked" / stem
    if not folder.is_dir():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    found = re.search(r"-cp3(\d+)-", wheel.name)
    return folder, environment_of(wheels, f"3.{found[1]}" if found else PYTHONS[0])


def platforms() -> list[str]:
    """Return the options that let pip accept wheels for every sufficiently old glibc."""
    return [word for one in ("manylinux2014", "manylinux_2_17", "manylinux_2_27")
            for word in ("--platform", f"{one}_x86_64")]  # fmt: skip


def environment_of(wheels: Path, version: str) -> str:
    """Return the Python of an environment with NumPy 1, which works with all these wheels."""
    folder = wheels / f"python{version}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([interpreter_of(version), "-m", "venv", str(folder)], check=True)
        packages = ["numpy<2", "flatbuffers", "protobuf", "tqdm", "ml_dtypes"]
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True, capture_output=True)
    return str(python)


def interpreter_of(version: str) -> str:
    """Return a Python of this version. Ends the program if there is none."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = shutil.which(f"python{version}") if not pyenv else str(pyenv[-1])
    if found is None:
        raise SystemExit(f"Python {version} is needed for the oldest wheels, and is not installed")
    return found


def dump(table: dict[str, Any]) -> str:
    """Return the table as JSON, with one row per line."""
    blocks = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
            blocks.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        else:
            blocks.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(blocks) + "\n}"


if __name__ == "__main__":
    main()
