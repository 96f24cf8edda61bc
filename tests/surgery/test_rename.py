"""Other names: which tensors, entries and keys get them, what follows, what is refused, and the way back."""

from __future__ import annotations

from ctypes import byref, c_uint32
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circletools as ct
from tests.kit.build import Build
from tests.kit.oracles import nnfw
from tests.kit.presence import need
from tests.kit.program import put, run
from tests.kit.support import bytes_of
from tests.kit.surgery_support import edited, signatures, wired

DATA = wired().to_bytes()
NAMES = ["x", "z", "k", "k2", "a", "b", "c", "fixed", "d", "e", "f", "g", "h"]


def renamed(data: bytes, **request: Any) -> bytes:
    return edited(data, lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest(**request)))[0]


def tensor_names(data: bytes, subgraph: int = 0) -> list[str]:
    with ct.open(data) as model:
        return [tensor.name for tensor in model.subgraphs[subgraph].tensors]


@pytest.mark.parametrize(
    ("request_", "changed"),
    [
        ({"tensors": ("a=new",)}, {"a": "new"}),
        ({"tensors": (("a", "b=c"),)}, {"a": "b=c"}),
        ({"tensors": ("a=b", "b=a")}, {"a": "b", "b": "a"}),
        ({"tensors": ("a=b", "b=c", "c=a")}, {"a": "b", "b": "c", "c": "a"}),
        ({"tensors": ("k*=weights*",)}, {"k": "weights", "k2": "weights2"}),
        ({"tensors": ("k?=*k",)}, {"k2": "2k"}),
        ({"tensors": ("f*e?=*/*/fixed",)}, {"fixed": "ix/d/fixed"}),
        ({"tensors": ("k*=weights*", "k=k")}, None),
        ({"tensors": (r"k(\d)=\1k",), "regex": True}, {"k2": "2k"}),
        ({"tensors": ("[ab]=new.",), "regex": True}, None),
        ({"tensors": ("index:4=new", "0/index:5=other")}, {"a": "new", "b": "other"}),
        ({"tensors": ("a=\udcff",)}, {"a": "\udcff"}),
        ({"tensors": ("a=a",)}, {}),
        ({"inputs": ("0=image",)}, {"x": "image"}),
        ({"outputs": ("1=boxes", "0=scores")}, {"h": "boxes", "g": "scores"}),
        ({"tensors": ("x=image",), "inputs": ("0=image",)}, {"x": "image"}),
    ],
)
def test_which_tensors_get_which_names(request_: dict[str, Any], changed: dict[str, str] | None) -> None:
    if changed is None:
        with pytest.raises(ct.CircleToolsError):
            renamed(DATA, **request_)
        return
    after = renamed(DATA, **request_)
    assert tensor_names(after) == [changed.get(name, name) for name in NAMES]
    assert after.endswith(DATA)
    back = renamed(after, tensors=tuple((new, old) for old, new in changed.items()))
    if not ({"x", "z", "g", "h"} & changed.keys()):
        assert back == DATA
    assert tensor_names(back) == NAMES
    assert renamed(after, tensors=()) == after


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        ({"tensors": ("a=b",)}, ct.EditError, r"subgraphs\[0\]\.tensors\[4\]: tensor 5 would be called 'b' too"),
        ({"tensors": ("a=n", "b=n")}, ct.EditError, "tensor 5 would be called 'n' too"),
        ({"tensors": ("?=n",)}, ct.EditError, "would be called 'n' too"),
        ({"tensors": ("aa=n",)}, ct.UsageError, "no tensor is called 'aa' .did you mean 'a'"),
        ({"tensors": ("q*=n",)}, ct.UsageError, "no tensor is called 'q\\*'"),
        ({"tensors": ("a",)}, ct.UsageError, "'a' has no = .write OLD=NEW"),
        ({"tensors": ("a=",)}, ct.UsageError, "'' is not a valid name"),
        ({"tensors": ("a=b\0",)}, ct.UsageError, "is not a valid name"),
        ({"tensors": ("a=m", "a=n")}, ct.UsageError, "it would be called both 'm' and 'n'"),
        ({"tensors": ("k*=**",)}, ct.UsageError, "has more \\* than"),
        ({"tensors": ("(=n",), "regex": True}, ct.UsageError, "is not a valid regular expression"),
        ({"tensors": (r"a=\2",), "regex": True}, ct.UsageError, "is not a valid regular expression"),
        ({"tensors": ("index:13=n",)}, ct.UsageError, "tensor 13 does not exist; the count is 13"),
        ({"tensors": ("1/index:0=n",)}, ct.UsageError, "subgraph 1 does not exist; the count is 1"),
        ({"tensors": ("a=n",), "subgraph": 1}, ct.UsageError, "subgraph 1 does not exist; the count is 1"),
        ({"tensors": ("*" * 10_001 + "=n",)}, ct.UsageError, "at most 10000 are allowed"),
        ({"tensors": ("q" * 9_999 + "*=n",)}, ct.UsageError, "no tensor is called"),
        ({"inputs": ("2=n",)}, ct.UsageError, "no input at position '2'; the subgraph has 2 inputs .write 0=NAME"),
        ({"outputs": ("g=n",)}, ct.UsageError, "no output at position 'g'; the subgraph has 2 outputs"),
        ({"signatures": ("walk=n",)}, ct.UsageError, "no signature is called 'walk'"),
        ({"signatures": ("run=",)}, ct.UsageError, "'' is not a valid name"),
        ({"signature_inputs": ("the g=n",)}, ct.UsageError, "no signature has inputs called 'the g'"),
        (
            {"signature_inputs": ("the x=the z",)},
            ct.EditError,
            "two inputs of signature 'run' would be called 'the z'",
        ),
        ({"signature_outputs": ("run/the g=",)}, ct.UsageError, "'' is not a valid name"),
    ],
)
def test_what_is_refused(request_: dict[str, Any], error: type[ct.CircleToolsError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        renamed(DATA, **request_)
    assert (
        caught.value.hint
        or "exist" in str(caught.value)
        or "expression" in str(caught.value)
        or "most" in str(caught.value)
    )


def test_a_name_with_an_equals_sign_is_found() -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("a=b")], [graph.tensor("c")])
    data = build.to_bytes()
    assert tensor_names(renamed(data, tensors=("a=b=n",))) == ["n", "c"]
    assert tensor_names(renamed(data, tensors=("c=d=e",))) == ["a=b", "d=e"]
    graph.tensor("a")
    with pytest.raises(ct.UsageError, match="'a=b=n' can be split in 2 ways"):
        renamed(build.to_bytes(), tensors=("a=b=n",))
    assert tensor_names(renamed(build.to_bytes(), tensors=(("a", "b=n"),))) == ["a=b", "c", "b=n"]


def test_a_name_that_looks_like_a_pattern_is_that_name() -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("x*"), graph.tensor("xy")], [graph.tensor("index:0")])
    data = build.to_bytes()
    assert tensor_names(renamed(data, tensors=("x*=star*",))) == ["star*", "xy", "index:0"]
    assert tensor_names(renamed(data, tensors=("index:0=n",))) == ["x*", "xy", "n"]


def test_names_of_all_subgraphs_or_of_one() -> None:
    build = Build()
    for name in ("one", "two"):
        graph = build.graph(name)
        graph.ends([graph.tensor("x")], [graph.tensor("y")])
    data = build.to_bytes()
    both = renamed(data, tensors=("x=n",))
    assert [tensor_names(both, index) for index in (0, 1)] == [["n", "y"]] * 2
    second = renamed(data, tensors=("x=n",), subgraph=1)
    assert [tensor_names(second, index) for index in (0, 1)] == [["x", "y"], ["n", "y"]]
    ends = renamed(data, outputs=("0=n",), subgraph=1)
    assert [tensor_names(ends, index) for index in (0, 1)] == [["x", "y"], ["x", "n"]]
    first = renamed(data, inputs=("0=n",))
    assert [tensor_names(first, index) for index in (0, 1)] == [["n", "y"], ["x", "y"]]
    by_index = renamed(data, tensors=("1/index:0=n", "index:1=m"))
    assert [tensor_names(by_index, index) for index in (0, 1)] == [["x", "m"], ["n", "y"]]


def test_equal_names_are_distinguished_by_index() -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("t"), graph.tensor("t")], [graph.tensor("")])
    data = build.to_bytes()
    with pytest.raises(ct.EditError, match="tensor 1 would be called 'n' too"):
        renamed(data, tensors=("t=n",))
    assert tensor_names(renamed(data, tensors=("index:1=n", "index:2=m"))) == ["t", "n", "m"]


# --- signatures ----------------------------------------------------------------------------------


def test_names_of_ends_in_signatures() -> None:
    build = wired()
    build.signature("as tensors", [("x", 0), ("z", 1)], [("h", 12), ("other", 11)])
    data = build.to_bytes()
    after = signatures(renamed(data, inputs=("0=image",), outputs=("1=boxes",)))
    assert after == {
        "run": ([("image", "image"), ("the z", "z")], [("the g", "g"), ("boxes", "boxes")]),
        "as tensors": ([("image", "image"), ("z", "z")], [("boxes", "boxes"), ("other", "g")]),
    }
    after = signatures(renamed(data, tensors=("x=image", "h=boxes", "g=scores")))
    assert after == {
        "run": ([("the x", "image"), ("the z", "z")], [("the g", "scores"), ("the h", "boxes")]),
        "as tensors": ([("image", "image"), ("z", "z")], [("boxes", "boxes"), ("other", "scores")]),
    }
    after = signatures(renamed(data, signature_inputs=("the x=first", "as tensors/z=last"), signatures=("run=go",)))
    assert after == {
        "go": ([("first", "x"), ("the z", "z")], [("the g", "g"), ("the h", "h")]),
        "as tensors": ([("x", "x"), ("last", "z")], [("h", "h"), ("other", "g")]),
    }
    with pytest.raises(ct.EditError, match="there is already a signature 'run'"):
        renamed(data, signatures=("as tensors=run",))
    swapped = renamed(data, signatures=("as tensors=run", "run=as tensors"))
    assert signatures(swapped)["run"] == signatures(data)["as tensors"]


def test_all_of_it_and_back_gives_the_original() -> None:
    data = bytes_of("tflite/cnn")
    after = renamed(
        data, inputs=("0=picture",), outputs=("0=result",), signatures=("serving_default=go",),
    )  # fmt: skip
    assert after.endswith(data)
    assert signatures(after) == {"go": ([("picture", "picture")], [("result", "result")])}
    back = renamed(
        after,
        tensors=("picture=serving_default_image:0", "result=PartitionedCall:0"),
        signatures=("go=serving_default",),
        signature_inputs=("picture=image",),
        signature_outputs=("result=scores",),
    )
    assert back == data


# --- tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["circle/inception", "tflite/two_signatures"])
def test_stamps_follow_and_come_back(name: str) -> None:
    with ct.open(bytes_of(name)) as model, ct.edit(model) as edit:
        ct.origins.embed(edit)
        ct.affinity.annotate(edit, ct.plan(model, ct.PlanRequest(devices=("cpu",), default="cpu")))
        data = edit.to_bytes()
    after = renamed(data, tensors=("*=new/*",))
    with ct.open(after) as model:
        origins, affinity = ct.origins.read(model), ct.affinity.read(model)
        assert origins is not None
        assert affinity is not None
        assert ct.origins.check_freshness(model, origins).state == "fresh"
        assert ct.affinity.check_freshness(model, affinity).state == "fresh"
        with ct.open(data) as before:
            assert ct.origins.read(before) == origins
    assert renamed(after, tensors=("new/*=*",)) == data


def test_origins_without_a_stamp_get_one() -> None:
    with ct.open(bytes_of("circle/inception")) as model, ct.edit(model) as edit:
        ct.origins.embed(edit, stamp=False)
        data = edit.to_bytes()
    with ct.open(data) as model:
        name = model.subgraphs[0].tensors[int(model.subgraphs[0].operators[3].outputs[0])].name
    with ct.open(renamed(data, tensors=((name, "new"),))) as model:
        origins = ct.origins.read(model)
        assert origins is not None
        assert ct.origins.check_freshness(model, origins).state == "fresh"


def test_stale_tables_stay_stale() -> None:
    with ct.open(bytes_of("circle/inception")) as model, ct.edit(model) as edit:
        ct.origins.embed(edit)
        stamp = bytearray(edit.metadata_value("CIRCLETOOLS_stamp") or b"")
        stamp[-1] ^= 1
        edit.set_metadata("CIRCLETOOLS_stamp", bytes(stamp))
        data = edit.to_bytes()
    after = renamed(data, inputs=("0=new",))
    with ct.open(after) as model:
        assert bytes(model.metadata_value("CIRCLETOOLS_stamp") or b"") == bytes(stamp)


# --- command and runtime --------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    source, out = put(tmp_path / "in.tflite", DATA), tmp_path / "out.tflite"
    ran = run("rename", source, out, "--input", "0=image", "--signature", "run=go")
    assert ran.err.splitlines() == [
        "subgraphs[0].tensors[0]: 'x' -> 'image'",
        "signatures[0].inputs[0]: 'the x' -> 'image'",
        "signatures[0]: 'run' -> 'go'",
    ]
    assert run("rename", out, "--input", "0=image", "--in-place").err == "nothing to change\n"
    assert run("rename", source, out).status == 2
    assert run("rename", source, out, "--tensor", "a=b").status == 4
    for option, pair in (("--output", "0=n"), ("--signature-input", "the z=n"), ("--signature-output", "the h=n")):
        assert run("rename", source, out, option, pair).status == 0
        assert "'n'" in str(signatures(out.read_bytes()))
    assert run("rename", source, out, "--tensor", "(.)2=2\\1", "--regex", "--subgraph", "0").status == 0
    assert "2k" in tensor_names(out.read_bytes())


def test_litert_finds_the_new_names(tmp_path: Path) -> None:
    need("ai_edge_litert")
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415

    source = bytes_of("tflite/cnn")
    after = put(
        tmp_path / "after.tflite",
        renamed(source, inputs=("0=picture",), outputs=("0=result",), signatures=("serving_default=go",)),
    )
    image = np.random.default_rng(0).uniform(-1, 1, (1, 16, 16, 3)).astype(np.float32)
    (new,) = Interpreter(model_path=str(after)).get_signature_runner("go")(picture=image).values()
    before = put(tmp_path / "before.tflite", source)
    (old,) = Interpreter(model_path=str(before)).get_signature_runner("serving_default")(image=image).values()
    assert new.tobytes() == old.tobytes()
    interpreter = Interpreter(model_path=str(after))
    assert [one["name"] for one in (*interpreter.get_input_details(), *interpreter.get_output_details())] == [
        "picture", "result",
    ]  # fmt: skip


@pytest.mark.runtime
def test_onert_finds_the_new_names(tmp_path: Path) -> None:
    need("onert")
    source = bytes_of("circle/cnn")
    after = put(tmp_path / "after.circle", renamed(source, inputs=("0=picture",), outputs=("0=scores",)))
    session = nnfw.Session()
    session("load_model_from_file", str(after).encode())
    index = c_uint32(9)
    for side, name in (("input", "picture"), ("output", "scores")):
        session(f"{side}_tensorindex", name.encode(), byref(index))
        assert index.value == 0
    with pytest.raises(nnfw.StatusError):
        session("input_tensorindex", b"tico::x", byref(index))


@pytest.mark.parametrize(
    ("pattern", "new", "name"),
    [
        ("*1*2*3*", "*-*-*-*", "a-b-c-d"), ("*1*2*", "*-*-*", "a-b-c3d"), ("*1b2*3d", "*--*", "a--c"),
        ("a*?b*d", "-**-*", "-1-2c3"),
    ],
)  # fmt: skip
def test_every_star_is_replaced_by_its_match(pattern: str, new: str, name: str) -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("a1b2c3d")], [graph.tensor("y")])
    after, _ = edited(
        build.to_bytes(), lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest((f"{pattern}={new}",)))
    )
    with ct.open(after) as model:
        assert model.subgraphs[0].tensors[0].name == name


def test_a_pattern_of_many_stars_comes_to_an_end() -> None:
    # Trying every match of each star would take more than 5000**11 ways.
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("a" * 5000)], [graph.tensor("y")])
    with pytest.raises(ct.UsageError, match="no tensor is called"):
        edited(
            build.to_bytes(), lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest(("*a" * 12 + "*b=n",)))
        )


def test_stripped_names_are_gone_and_signatures_keep_theirs() -> None:
    data = bytes_of("tflite/two_signatures")
    stripped, result = edited(data, ct.surgery.strip_names)
    assert result.changes
    assert not any(tensor_names(stripped))
    with ct.open(data) as before, ct.open(stripped) as after:
        assert after.signatures == before.signatures
    assert not edited(stripped, ct.surgery.strip_names)[1].changes
