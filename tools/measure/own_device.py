"""Measure a device whose SDK you have, and compare its table with whole models: docs/measure-a-device.md.

python -m tools.measure.own_device npu.py --device npu --runtime "vendor-sdk 1.2" --out npu.json
python -m tools.measure.own_device npu.py --compare npu.json MODELS --list
"""

import argparse
import importlib.util
import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

from circletools.affinity.capability.file import load_capability
from tools.measure.capabilities import all_templates, context, dump, table, updated
from tools.measure.capability.accelerators import ask_sdk
from tools.measure.capability.runtimes import ON_CHIPS, TAKEN, Device
from tools.measure.isolation import CRASH, answers
from tools.measure.scoreboard import HEAD, digest, held, models_in, report

_SECONDS = 60.0


def load(path: str) -> ModuleType:
    """Return the module that asks the SDK."""
    specification = importlib.util.spec_from_file_location(Path(path).stem, path)
    if specification is None or specification.loader is None:
        raise SystemExit(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def ask_whole(module: ModuleType, path: Path) -> str:
    """Return the SDK's verdict on a whole model as JSON."""
    return json.dumps({"resident": module.ask(path.read_bytes()) == TAKEN})


def main() -> None:
    """Measure a device, or compare a table with whole models."""
    parser = argparse.ArgumentParser(prog="tools.measure.own_device", description=__doc__.split("\n", 1)[0])
    parser.add_argument("module", help="a Python file with ask, prepare, and perhaps refused")
    parser.add_argument("folders", nargs="*", help="models to compare with")
    parser.add_argument("--device", default="npu")
    parser.add_argument("--runtime", default="", help="the SDK and its version")
    parser.add_argument("--out", default="npu.json")
    parser.add_argument("--codes", nargs="+", metavar="CODE", help="only these operators")
    parser.add_argument("--all-types", action="store_true")
    parser.add_argument("--context", action="store_true", help="also pairs of operators")
    parser.add_argument("--compare", metavar="TABLE")
    parser.add_argument("--list", action="store_true", help="print each difference")
    options = parser.parse_intermixed_args()
    module = load(options.module)
    device = Device(
        options.device, options.runtime, "see the runtime's documents", partial(ask_sdk, module), module.prepare,
        cpu_seconds=_SECONDS, slow=True, types=frozenset() if options.all_types else ON_CHIPS,
    )  # fmt: skip
    if options.compare:
        _compare(module, options)
        return
    codes, path = options.codes, Path(options.out)
    document = table(device, all_templates(), lambda code: codes is None or code in codes)
    if codes is not None:
        document = updated(device, path, document, lambda code: code in codes)
    if options.context:
        document["context"] = context(device)
    path.write_text(dump(document))
    print(f"{path}: written")


def _compare(module: ModuleType, options: argparse.Namespace) -> None:
    paths = [path for folder in options.folders for path in models_in(Path(folder))]
    texts = answers(paths, partial(ask_whole, module), module.prepare, cpu_seconds=_SECONDS)
    rows = [{"resident": False} if text == CRASH else json.loads(text) for text in texts]
    truth = dict(zip(map(digest, paths), rows, strict=True))
    table = load_capability(options.compare)
    lines = report(table.device, list(held(table, paths, truth)), options.list)
    sys.stdout.writelines(f"{line}\n" for line in (HEAD, *lines))


if __name__ == "__main__":
    main()
