"""Read the methods of MicroMutableOpResolver from TFLM's header (circletools/requires/micro.json), and compile all.

    python -m tools.measure.micro_resolver TFLM "tflite-micro COMMIT" [--include FLATBUFFERS/include GEMMLOWP]

TFLM is a checkout of github.com/tensorflow/tflite-micro. With --include (the folders of the two libraries that its
headers include), the resolver of a model with every operator of TFLM must compile with g++.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import circletools as ct
from circletools.requires import resolver
from tests.kit.build import Build, Code

TABLE = Path(resolver.__file__).with_name("micro.json")
_HEADER = "tensorflow/lite/micro/micro_mutable_op_resolver.h"
_METHOD = re.compile(r"^  TfLiteStatus Add(\w+)\((.*?)^  \}", re.MULTILINE | re.DOTALL)
_BUILTIN = re.compile(r"AddBuiltin\(\s*BuiltinOperator_(\w+)")
_CUSTOM = re.compile(r'AddCustom\(\s*(?:"([^"]+)"|tflite::GetString_(ETHOSU))')


def methods(header: str) -> dict[str, str]:
    """Return the method that registers each operator code, without `Add`."""
    found = {}
    for name, body in _METHOD.findall(header):
        if builtin := _BUILTIN.search(body):
            found[builtin[1]] = name
        elif custom := _CUSTOM.search(body):
            found["CUSTOM:" + (custom[1] or "ethos-u")] = name
    return found


def program(codes: list[str]) -> str:
    """Return a program that registers the operators of a model with all these codes, and a custom one."""
    build = Build("all")
    graph = build.graph()
    for code in [*codes, "CUSTOM:own"]:
        tensors = [graph.tensor(f"{code}{at}", [1], "FLOAT32") for at in range(2)]
        name, _, custom = code.partition(":")
        graph.operator(Code(name, 1, custom or None), tensors[:1], tensors[1:], table=None)
    graph.ends([0], [1])
    with ct.open(build.to_bytes()) as model:
        header = ct.resolver_code([model])
    uses = f"tflite::MicroMutableOpResolver<{len(codes) + 1}> resolver;\n  return RegisterOps(resolver);"
    own = '#include "tensorflow/lite/micro/micro_common.h"\nTFLMRegistration* Register_OWN();\n'
    return f"{own}{header.replace('#pragma once', '')}\nint main() {{\n  {uses}\n}}\n"


def main() -> int:
    """Write the table; return the status of the compiler."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tflm", type=Path)
    parser.add_argument("version")
    parser.add_argument("--include", nargs="*", type=Path, default=())
    given = parser.parse_args()
    found = dict(sorted(methods((given.tflm / _HEADER).read_text()).items()))
    TABLE.write_text(json.dumps({"runtime": given.version, "methods": found}, indent=1) + "\n")
    if not given.include:
        return 0
    folders = [part for folder in (given.tflm, *given.include) for part in ("-I", str(folder))]
    command = ["g++", "-std=c++17", "-Wall", "-fsyntax-only", *folders, "-x", "c++", "-"]
    done = subprocess.run(command, input=program(list(found)), text=True, check=False)
    print(f"{len(found)} methods, {'compiled' if not done.returncode else 'not compiled'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
