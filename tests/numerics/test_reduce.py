"""The smallest model that still fails: nothing more can be taken from it, and nothing of the original is shared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circletools as ct
from circletools.model.model import Model
from circletools.parts.whole import read_whole
from circletools.reduction.candidates import Candidates, Choice, anonymous
from circletools.reduction.reduce import minimal
from tests.kit.build import Build, Code, Table, floats, strings
from tests.kit.program import run
from tests.kit.support import ROOT, bytes_of, path_of
from tests.laws.test_docs import blocks, shell


@given(st.integers(1, 40).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1)))))
def test_nothing_can_be_left_out_of_what_is_found(case: tuple[int, set[int]]) -> None:
    count, guilty = case

    def fails(some: Sequence[int]) -> bool:
        return guilty <= set(some)

    found = minimal(range(count), fails, least=0)
    assert set(found) == guilty


@given(st.sets(st.frozensets(st.integers(0, 7), min_size=1, max_size=3), min_size=1, max_size=4))
def test_any_of_several_reasons_is_enough(reasons: set[frozenset[int]]) -> None:
    def fails(some: Sequence[int]) -> bool:
        return any(reason <= set(some) for reason in reasons)

    found = set(minimal(range(8), fails))
    assert fails(sorted(found))
    assert not any(fails(sorted(found - {one})) for one in found)


def chain(count: int, *guilty: int) -> bytes:
    """Return a chain of operators, some of them with a code of their own."""
    build = Build()
    graph = build.graph()
    value = first = graph.tensor("secret/first", (1, 4))
    for at in range(count):
        code = Code("CUSTOM", 1, f"Guilty{at}") if at in guilty else Code("ADD")
        constant = graph.constant(f"secret/weight{at}", np.arange(4, dtype=np.float32) + 100 + at)
        output = graph.tensor(f"secret/value{at}", (1, 4))
        text = graph.tensor("secret/text", (1,), "STRING", data=strings(b"a secret")) if at in guilty else -1
        numbers = graph.constant("secret/numbers", np.arange(1000, 1030)) if at in guilty else -1
        graph.operator(code, [value, constant, text, numbers], [output])
        value = output
    graph.ends([first], [value])
    return build.to_bytes("tflite")


def reduced(data: bytes, folder: Path, **asked: object) -> tuple[ct.types.Reduction, Path]:
    out = folder / "small.tflite"
    with ct.open(data) as model:
        return ct.reduce(model, out, ct.ReduceRequest(**asked)), out  # type: ignore[arg-type]


@pytest.mark.parametrize("guilty", [0, 1, 110, 221])
def test_one_guilty_operator_of_222(guilty: int, tmp_path: Path) -> None:
    found, out = reduced(chain(222, guilty), tmp_path, while_="grep -q Guilty {}")
    assert (found.operators, found.codes) == ((guilty,), (f"CUSTOM:Guilty{guilty}",))
    assert found.trials <= 30
    with ct.open(out) as model:
        assert len(model.subgraphs[0].operators) == 1


def test_a_model_that_does_not_fail_or_not_each_time(tmp_path: Path) -> None:
    with pytest.raises(ct.EditError, match="does not fail"):
        reduced(chain(3), tmp_path, while_="grep -q Guilty {}")
    flag = tmp_path / "flag"
    with pytest.raises(ct.EditError, match="not reproducible"):
        reduced(chain(3), tmp_path, while_=f"sh -c 'test -e {flag} && rm {flag} || (touch {flag}; false) # {{}}'")
    assert run("reduce", path_of("tflite/cnn"), tmp_path / "out", "--while", "false {}").status == 4
    assert not (tmp_path / "out").exists()
    limits = [("--while", "true {}", "--timeout", one) for one in ("inf", "nan", "1e9")]
    for words in ((), ("--while", "true"), ("--while", "cat {} | cat"), ("--while", "'{}"), *limits):
        assert run("reduce", path_of("tflite/cnn"), tmp_path / "out", *words).status == 2


def test_a_log_is_gone_on_from(tmp_path: Path) -> None:
    log, asked = tmp_path / "log", tmp_path / "asked"
    words = f"sh -c 'echo >> {asked}; grep -q Guilty {{}}'"
    found, out = reduced(chain(50, 20), tmp_path, while_=words, log=str(log))
    first, data = asked.read_text().count("\n"), out.read_bytes()
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:5]) + '{"model": "cut of')
    again, _ = reduced(chain(50, 20), tmp_path, while_=words, log=str(log))
    assert (again.operators, out.read_bytes()) == (found.operators, data)
    assert asked.read_text().count("\n") - first == first - 5
    reduced(chain(50, 20), tmp_path, while_=words, log=str(log))
    assert asked.read_text().count("\n") == 2 * first - 2, "only the whole model and the result"
    log.write_text("[1]}\n")
    for name in (log, "/dev/zero"):
        with pytest.raises(ct.InvalidInputError):
            reduced(chain(3, 1), tmp_path, while_=words, log=str(name))


@pytest.mark.parametrize("name", ["cnn", "cnn_int8", "cnn_float16", "transformer_block", "blockwise_int4", "sparse"])
def test_what_is_shared_has_nothing_of_the_original(name: str, tmp_path: Path) -> None:
    data = bytes_of(f"tflite/{name}")
    found, out = reduced(data, tmp_path, while_="test -s {}", share_safe=True)
    assert found.still_fails
    shared = out.read_bytes()
    with ct.open(data) as model:
        graph = model.subgraphs[0]
        texts = [one.name.encode() for one in graph.tensors] + [one.key.encode() for one in model.signatures]
        texts += [one.name.encode() for one in model.metadata] + [model.description.encode()]
        texts = [text for text in texts if len(text) > 6 and text != b"serving_default"]
        weights = [bytes(one.data) for one in model.buffers if len(one.data) >= 16]
    assert [text for text in texts if text in shared] == []
    assert [at for data in weights for at in range(0, len(data) - 15, 16) if len(set(data[at : at + 16])) > 8
            and data[at : at + 16] in shared] == []  # fmt: skip


def test_names_and_weights_of_a_whole_model_go(tmp_path: Path) -> None:
    words = "sh -c 'test $(grep -ao Guilty {} | wc -l) -ge 3'"
    found, out = reduced(chain(6, 1, 2, 4), tmp_path, while_=words, share_safe=True)
    assert found.operators == (1, 2, 4)
    with ct.open(chain(6, 1, 2, 4)) as model:
        candidates, choice = Candidates(read_whole(model)), Choice(0, found.operators)
        excerpt = candidates.excerpt(choice)
        assert excerpt is not None
        random = candidates.file(anonymous(candidates, choice, excerpt))
    kept = (b"secret", np.float32(103).tobytes(), np.arange(1010, 1013).tobytes())
    assert not any(one in shared for one in kept for shared in (out.read_bytes(), random))


def tangled(random: Random) -> bytes:
    """Return a model of several inputs, optional ones left out, subgraphs, and constants and buffers in common."""
    build = Build()
    graph, body = build.graph(), build.graph("body")
    ends = [body.tensor("x"), body.tensor("y")]
    body.operator("MUL", [ends[0], body.constant("gain", floats(2, 2))], [ends[1]])
    body.ends(ends[:1], ends[1:])
    made, flag = [graph.tensor(f"in{at}") for at in range(3)], graph.tensor("flag", (), "BOOL")
    weights, bias = graph.constant("weights", floats(2, 2)), graph.constant("bias", floats(2))
    shape = graph.constant("shape", np.array([2, 2], np.int32))
    graph.table.tensors[shape].quantization = Table("QuantizationParameters")  # as converters write it
    twin = graph.tensor("twin", (2,), buffer=graph.table.tensors[shape].buffer)
    for at in range(random.randint(6, 12)):
        one, other = random.choices(made, k=2)
        code, inputs = random.choice(
            [
                ("FULLY_CONNECTED", [one, weights, random.choice([-1, bias])]),
                ("IF", [flag, one]),
                ("RESHAPE", [one, shape]),
                ("SELECT_V2", [flag, one, other]),
                ("SUB", [one, one]),
                ("SUB", [other, twin]),
            ]
        )
        made.append(graph.tensor(f"made{at}"))
        operator = graph.operator(code, inputs, made[-1:])
        if code == "IF":
            operator.builtin_options.then_subgraph_index = operator.builtin_options.else_subgraph_index = 1
    graph.ends([*made[:3], flag], made[-2:])
    return build.to_bytes()


def meaning(model: Model, operators: Sequence[int], zeros: Sequence[int] = ()) -> list[Any]:
    """Return operators with their options and operands: each tensor by its first use, and what it holds."""
    view, seen, found = model.subgraphs[0], dict[int, int](), []
    for operator in map(view.operators.__getitem__, operators):
        slots: list[Any] = []
        for tensor in (*operator.inputs, *operator.outputs):
            held = view.tensors[int(tensor)] if tensor >= 0 else None
            values = held.numpy() if held is not None and held.is_constant else None
            if held is not None and values is not None and held.type == "FLOAT32" and held.buffer in zeros:
                values = values * 0
            place = None if held is None else seen.setdefault(held.index, len(seen))
            slots.append((place, held and (held.type, held.shape), None if values is None else values.tolist()))
        found.append((operator.code.name, dict(operator.options), len(operator.inputs), slots))
    return found


@settings(max_examples=7)
@given(st.randoms())
def test_what_stays_of_a_model_means_the_same(random: Random) -> None:
    with ct.open(tangled(random)) as model:
        candidates, count = Candidates(read_whole(model)), len(model.subgraphs[0].operators)
        choice = Choice(0, tuple(sorted(random.sample(range(count), random.randint(1, count)))))
        constants, outputs = candidates.constants(choice), candidates.outputs(choice)
        zeros = tuple(random.sample(constants, random.randint(0, len(constants))))
        some = tuple(random.sample(outputs, random.randint(1, len(outputs))))
        excerpt = candidates.excerpt(replace(choice, zeros=zeros, outputs=some))
        assert excerpt is not None
        with ct.open(candidates.file(excerpt)) as part:
            assert meaning(part, range(len(choice.operators))) == meaning(model, choice.operators, zeros)


def test_inputs_become_small(tmp_path: Path) -> None:
    found, out = reduced(bytes_of("tflite/cnn"), tmp_path, while_="grep -q Conv2D {}")
    with ct.open(out) as model:
        (view,) = model.subgraphs
        assert (found.codes, view.tensors[view.inputs[0]].shape) == (("CONV_2D",), (1, 1, 1, 3))
    assert out.stat().st_size < 3000


def test_a_loop_gives_its_body(tmp_path: Path) -> None:
    found, out = reduced(bytes_of("tflite/while_nested"), tmp_path, while_="test -s {}")
    with ct.open(out) as model:
        assert len(model.subgraphs) == 1
    assert len(found.operators) == 1


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    text = (ROOT / "docs" / "reduce.md").read_text(encoding="utf-8")
    for step in re.split(r"^\$ ", blocks(text, "console")[0], flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        assert shell(f"{command} 2>&1; true", tmp_path) == expected
