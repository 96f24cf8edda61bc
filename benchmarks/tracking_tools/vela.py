"""Compile models with Vela, and record which operators correspond.

    python benchmarks/tracking_tools/vela.py VELA DIR MODEL...

VELA is the program. Vela preserves names: an operator that it did not compile keeps its name and code, and an
operator on variables without an output still reads a tensor of the same name. An `ethos-u` operator contains all
operators between its inputs and outputs that no other operator contains.
"""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.tracking_pairs import unpacked

ACCELERATORS = ("ethos-u55-128", "ethos-u85-256")
SECONDS = 90


class Graph:
    """A subgraph: the names of its tensors, and the code, custom code, inputs and outputs of each operator."""

    def __init__(self, model: Any, subgraph: Any) -> None:
        codes = [(max(c.builtinCode, c.deprecatedBuiltinCode), c.customCode) for c in model.operatorCodes]
        names = [tensor.name for tensor in subgraph.tensors or ()]
        self.operators = []
        for operator in subgraph.operators or ():
            ends = (operator.inputs, operator.outputs)
            taken, made = ([names[t] for t in end if t >= 0] if end is not None else [] for end in ends)
            self.operators.append((*codes[operator.opcodeIndex], taken, made))
        self.makers: dict[bytes, list[int]] = defaultdict(list)
        for index, (_, _, _, made) in enumerate(self.operators):
            for name in made:
                self.makers[name].append(index)

    def same(self, code: int, taken: list[bytes], made: list[bytes]) -> list[int]:
        """Return the operator that produces the first name in `made` or, if none, reads the first in `taken`."""
        if made:
            found = self.makers.get(made[0], [])
        else:
            found = [i for i, (_, _, t, m) in enumerate(self.operators) if not m and t[:1] == taken[:1]]
        found = [index for index in found if self.operators[index][0] == code]
        return found if len(found) == 1 else []

    def between(self, taken: list[bytes], made: list[bytes], kept: set[int]) -> list[int]:
        """Return the operators between some tensors and others, except those that other operators contain."""
        waiting, found = [self._without_copy(name) for name in made], set[int]()
        stop = set(taken) - set(waiting)
        while waiting:
            name = waiting.pop()
            fresh = [] if name in stop else [i for i in self.makers.get(name, ()) if i not in found | kept]
            found |= set(fresh)
            waiting += [other for index in fresh for other in self.operators[index][2]]
        return sorted(found)

    def _without_copy(self, name: bytes) -> bytes:
        while name not in self.makers and name.endswith(b"_copy"):
            name = name.removesuffix(b"_copy")
        return name


def truth(before: bytes, after: bytes) -> dict[str, Any]:
    """Return which operators correspond, by names."""
    sides = [[Graph(model, s) for s in model.subgraphs] for model in (unpacked(before), unpacked(after))]
    start, rows = 0, []
    for old, new in zip(*sides, strict=False):
        kept = [[] if custom == b"ethos-u" else old.same(code, t, m) for code, custom, t, m in new.operators]
        taken = {index for own in kept for index in own}
        whole = [
            old.between(t, m, taken) if custom == b"ethos-u" else own
            for own, (_, custom, t, m) in zip(kept, new.operators, strict=True)
        ]
        rows.append([[start + index for index in own] for own in whole])
        start += len(old.operators)
    rows += [[[] for _ in graph.operators] for graph in sides[1][len(rows) :]]
    used = {index for row in rows for own in row for index in own}
    total = sum(len(graph.operators) for graph in sides[0])
    return {"operators": rows, "removed": sorted(set(range(total)) - used)}


def main(vela: str, directory: Path, models: list[Path]) -> None:
    """Write all pairs."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in models:
        for accelerator in ACCELERATORS:
            with tempfile.TemporaryDirectory() as folder:
                command = [vela, "--accelerator-config", accelerator, "--output-dir", folder, str(path)]
                try:
                    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
                    after = next(Path(folder).glob("*_vela.tflite")).read_bytes()
                except (subprocess.SubprocessError, StopIteration) as error:
                    print(f"{path.name}, {accelerator}: {error}")
                    continue
            stem = f"{directory}/{path.stem}-{accelerator}.vela"
            before = path.read_bytes()
            Path(f"{stem}.before.tflite").write_bytes(before)
            Path(f"{stem}.after.tflite").write_bytes(after)
            Path(f"{stem}.json").write_text(json.dumps(truth(before, after)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
