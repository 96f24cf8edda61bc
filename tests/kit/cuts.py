"""Random cuts of models, and whether what is cut computes what it did in the model: bit by bit, in LiteRT and onert.

    python -m tests.kit.cuts 10000 --seed 1 testdata ../shared/models

The model runs once, with all that its operators make exposed; a cut runs with the values that its inputs had there.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import circletools as ct
from circletools.graph.build import model_graph
from circletools.graph.reach import Reach
from circletools.model.model import Model
from circletools.model.verify import is_dangling
from circletools.parts.extract import select
from circletools.parts.whole import read_whole
from circletools.runtimes.protocol import Array, same
from circletools.runtimes.worker import Worker

RUNTIMES = {"tflite": "litert:builtin", "circle": "onert"}


def random_request(model: Model, random: Random) -> ct.surgery.ExtractRequest:
    """Return a request for a part of subgraph 0: a range of operators, connected ones, or those between tensors."""
    reach = Reach(model_graph(model).graphs[0])
    count = len(reach.graph)
    way = random.randrange(3)
    if way == 0:
        first = random.randrange(count)
        last = min(count - 1, first + int(random.expovariate(1 / 8)))
        return ct.surgery.ExtractRequest(operators=f"{first}-{last}")
    if way == 1:
        return ct.surgery.ExtractRequest(operators=",".join(map(str, sorted(_connected(reach, random)))))
    made = reach.made_by(range(count))
    outputs = random.sample(made, min(len(made), random.choice((1, 1, 1, 2, 3))))
    behind = reach.read_by(reach.behind(outputs))
    plain = [one for one in dict.fromkeys(behind) if reach.producer[one] >= 0 or one in model.subgraphs[0].inputs]
    inputs = random.sample(plain, min(len(plain), random.choice((0, 1, 1, 2))))
    named = [tuple(f"0/index:{tensor}" for tensor in some) for some in (inputs, outputs)]
    return ct.surgery.ExtractRequest(from_=named[0], to=named[1])


def _connected(reach: Reach, random: Random) -> set[int]:
    """Return operators that are neighbors of each other."""
    found = {random.randrange(len(reach.graph))}
    for _ in range(int(random.expovariate(1 / 6))):
        near = {reach.producer[tensor] for tensor in reach.read_by(found)} - {-1}
        near.update(*(reach.graph.readers[tensor] for tensor in reach.made_by(found)))
        if not near - found:
            break
        found.add(random.choice(sorted(near - found)))
    return found


@dataclass(slots=True)
class Values:
    """What a model computes, by tensor; nothing where the runtime does not run it."""

    by_tensor: dict[int, Array] = field(default_factory=dict)
    why_not: str = ""


def run_exposed(model: Model, worker: Worker, path: Path) -> Values:
    """Run a model with all that its operators make as outputs."""
    reach, view = Reach(model_graph(model).graphs[0]), model.subgraphs[0]
    held = {index for index, tensor in enumerate(view.tensors) if tensor.type in ("RESOURCE", "VARIANT")}
    inputs, outputs = view.inputs.tolist(), view.outputs.tolist()
    made = [tensor for tensors in reach.results for tensor in tensors if tensor not in held and tensor not in outputs]
    with ct.edit(model) as edit:
        edit.save(path)
    plain = worker.run(path)
    if plain.failure:
        return Values(why_not=plain.failure)
    with ct.edit(model) as edit:
        edit.set_outputs(0, [*outputs, *made])
        edit.save(path)
    answer = worker.run(path, plain.inputs)
    if answer.failure:
        return Values(why_not=answer.failure)
    if same(plain.outputs, answer.outputs[: len(outputs)]) is not None:
        return Values(why_not="the model computes other values each time")
    return Values(dict(zip([*inputs, *outputs, *made], [*plain.inputs, *answer.outputs], strict=True)))


def judge(model: Model, request: ct.surgery.ExtractRequest, values: Values, worker: Worker, path: Path) -> str:
    """Return what becomes of a cut: refused, same, not run, or what is wrong."""
    try:
        ct.surgery.extract(model, path, request)
    except ct.EditError as error:
        return f"refused: {error.message.rpartition(': ')[2]}"
    unsound = _unsound(request, path)
    if unsound:
        return f"WRONG: {unsound}"
    inputs, outputs = _ends(model, request)
    if values.why_not or not values.by_tensor.keys() >= {*inputs, *outputs}:
        return "not compared: the model does not run"
    answer = worker.run(path, [values.by_tensor[tensor] for tensor in inputs])
    if answer.failure:
        if answer.failure.startswith("no answer"):
            values.why_not = answer.failure
        return f"not run: {answer.failure.strip().splitlines()[-1][:90]}"
    expected = [values.by_tensor[tensor] for tensor in outputs]
    difference = same(expected, answer.outputs)
    depends = difference and _alone(model, outputs, worker, path, values) != [one.tobytes() for one in expected]
    verdict = (
        "not compared: what the model computes depends on what is exposed" if depends else f"WRONG: {difference}"
    )
    return "same bits" if difference is None else verdict


def _unsound(request: ct.surgery.ExtractRequest, path: Path) -> str:
    """Return what is wrong with a part by itself: it does not verify, or cutting all of it gives something else."""
    again = path.with_name("again")
    with ct.open(path) as part:
        errors = [
            finding.message for finding in ct.check(part) if finding.severity == "error" or is_dangling(finding)
        ]
        if errors:
            return errors[0]
        view = part.subgraphs[0]
        ct.surgery.extract(
            part, again, _again(request, view.inputs.tolist(), view.outputs.tolist(), len(view.operators))
        )
    return "" if again.read_bytes() == path.read_bytes() else "twice is not once"


def _alone(model: Model, tensors: tuple[int, ...], worker: Worker, path: Path, values: Values) -> list[bytes]:
    """Return the values of tensors, each as the only one that is exposed: onert has SPLIT_V write elsewhere."""
    inputs, outputs = model.subgraphs[0].inputs.tolist(), model.subgraphs[0].outputs.tolist()
    found = []
    for tensor in tensors:
        with ct.edit(model) as edit:
            edit.set_outputs(0, [*outputs, tensor] if tensor not in outputs else outputs)
            edit.save(path)
        answer = worker.run(path, [values.by_tensor[one] for one in inputs])
        place = len(outputs) if tensor not in outputs else outputs.index(tensor)
        found.append(b"" if answer.failure else answer.outputs[place].tobytes())
    return found


def _again(
    request: ct.surgery.ExtractRequest, inputs: list[int], outputs: list[int], count: int
) -> ct.surgery.ExtractRequest:
    """Return the request for all of a part, in the same form."""
    if request.operators is not None:
        return ct.surgery.ExtractRequest(operators=f"0-{count - 1}")
    named = [tuple(f"0/index:{tensor}" for tensor in some) for some in (inputs, outputs)]
    return ct.surgery.ExtractRequest(from_=named[0] if request.from_ else (), to=named[1])


def _ends(model: Model, request: ct.surgery.ExtractRequest) -> tuple[tuple[int, ...], tuple[int, ...]]:
    _, cut = select(read_whole(model), request)
    return cut.inputs, cut.outputs


def models(places: list[str]) -> Iterator[Path]:
    for place in places:
        root = Path(place)
        found = [root] if root.is_file() else sorted(root.rglob("*"))
        yield from (path for path in found if path.suffix in (".tflite", ".circle"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("places", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    paths, total, wrong = list(models(given.places)), Counter[str](), 0
    with TemporaryDirectory() as folder:
        for number, path in enumerate(paths):
            share = given.count // len(paths) + (number < given.count % len(paths))
            found = cuts_of(path, share, given.seed, Path(folder))
            total += found
            for verdict, count in found.items():
                if verdict.startswith("WRONG"):
                    wrong += count
                    print(path, count, verdict, flush=True)
            print(
                f"{number + 1}/{len(paths)}", path.name[:50], dict(found.most_common(4)), file=sys.stderr, flush=True
            )
    for verdict, count in total.most_common():
        print(f"{count:6}  {verdict}")
    return int(wrong > 0)


def cuts_of(path: Path, count: int, seed: int, folder: Path) -> Counter[str]:
    """Cut a model so many times; return how often each verdict was given."""
    found = Counter[str]()
    try:
        with ct.open(path) as model:
            if not model.subgraphs or not len(model.subgraphs[0].operators):
                return Counter({"no operators": count})
            random = Random(f"{seed} {path.name}")  # noqa: S311 - no secret
            target = folder / f"cut.{model.format}"
            with Worker(RUNTIMES[model.format], 10) as worker:
                values = run_exposed(model, worker, target)
                for _ in range(count):
                    request = random_request(model, random)
                    verdict = judge(model, request, values, worker, target)
                    found[verdict if not verdict.startswith("WRONG") else f"{verdict} {request}"] += 1
    except ct.CircleToolsError as error:
        found[f"not cut: {error.message[:60]}"] += count
    return found


if __name__ == "__main__":
    sys.exit(main())
