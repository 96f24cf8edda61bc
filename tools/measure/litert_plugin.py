"""Ask a compiler plugin of LiteRT which operators it takes, for tools.measure.own_device. No device is needed.

    LITERT_PLUGIN=qualcomm:Qualcomm:CHIP LITERT_LIBRARIES=DIR \
        python -m tools.measure.own_device tools/measure/litert_plugin.py --device npu --out npu.json

`LITERT_PLUGIN` names the folder below `ai_edge_litert/vendors`, the manufacturer and the chip; `LITERT_LIBRARIES` is
the folder of the SDK's libraries. `apply_plugin_main --cmd=partition` moves the operators that the plugin takes into
new subgraphs, called by custom operators (DISPATCH_OP); operators that remain in the model's subgraphs are refused.
"""

import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import circletools as ct
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph

INTEL = "intel_openvino:IntelOpenVINO:PTL"
_DISPATCH = "CUSTOM:DISPATCH_OP"


def prepare() -> None:
    """Import nothing, since each question starts the tool."""


def ask(model: bytes) -> str:
    """Return `taken`, `left`, or the failed step."""
    left = staying(model)
    return "partition" if left is None else "left" if left else "taken"


def refused(model: bytes) -> list[str]:
    """Return the first output names of the operators that the plugin does not take."""
    return [name for _, name in staying(model) or ()]


def staying(model: bytes) -> list[tuple[str, str]] | None:
    """Return the code and first output name of these operators, or None if a step fails."""
    folder, manufacturer, chip = os.environ.get("LITERT_PLUGIN", INTEL).split(":")
    package = find_spec("ai_edge_litert")
    if package is None or package.origin is None:
        raise SystemExit("ai_edge_litert is not installed")
    litert = Path(package.origin).parent
    libraries = f"{os.environ.get('LITERT_LIBRARIES', '')}:{litert}"
    with tempfile.TemporaryDirectory() as scratch:
        given, made = Path(scratch, "in.tflite"), Path(scratch, "out.tflite")
        given.write_bytes(model)
        command = [
            str(litert / "tools" / "apply_plugin_main"),
            "--cmd=partition",
            f"--soc_manufacturer={manufacturer}",
            f"--soc_model={chip}",
            f"--libs={litert / 'vendors' / folder / 'compiler'}",
            f"--model={given}",
            f"--o={made}",
        ]
        environment = os.environ | {"LD_LIBRARY_PATH": libraries}
        done = subprocess.run(command, capture_output=True, check=False, env=environment, cwd=scratch)
        if b"Selected plugin" not in done.stdout + done.stderr:
            raise RuntimeError(f"{folder}: the plugin cannot be loaded; set LITERT_LIBRARIES to its libraries")
        if done.returncode or not made.exists():
            return None
        with ct.open(given) as whole, ct.open(made) as partitioned:
            before, after = model_graph(whole).graphs, model_graph(partitioned).graphs
            bodies = {body for graph in before for body in graph.called(_composites(graph))}
            return [
                (code, graph.values.name(value))
                for graph in after[: len(before)]
                if graph.index not in bodies
                for code, value in zip(graph.operators.code_names, graph.first_results.tolist(), strict=True)
                if code != _DISPATCH
            ]


def _composites(graph: Graph) -> list[int]:
    return [at for at in graph.callees if graph.operators.code_names[at] == "STABLEHLO_COMPOSITE"]
