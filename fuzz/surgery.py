"""Targets that cut, prune, rename and sign models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from circletools.edit.archive import replace_member
from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.errors import CircleToolsError
from circletools.model.bundles import bundle_members
from circletools.model.model import Model, open_model
from circletools.model.verify import check_model, is_dangling
from circletools.numerics.running import tasks
from circletools.numerics.subject import subject_of
from circletools.parts.extract import ExtractRequest, extract, prune
from circletools.reduction.candidates import Candidates, Choice, anonymous
from circletools.storage.files import view
from circletools.surgery.ends import SignatureRequest, expose, reorder, sign
from circletools.surgery.rename import RenameRequest, rename
from circletools.surgery.repair import REMEDIES, repair
from circletools.surgery.setting import ShapeRequest, set_shape
from fuzz.target import no_refusal
from tests.kit.bundles import litertlm, task
from tests.kit.support import path_of


def _sound(data: bytes) -> None:
    with no_refusal("what was written cannot be read"), open_model(data) as model:
        errors = list(filter(is_dangling, check_model(model)))
    assert not errors, f"the result does not verify: {errors[0]}"


def _written(data: bytes, write: Callable[[Model, Path], RewriteResult]) -> tuple[bytes, RewriteResult]:
    with TemporaryDirectory() as folder, open_model(data) as model:
        path = Path(folder) / "out"
        result = write(model, path)
        return path.read_bytes(), result


def pruned(data: bytes) -> None:
    """Prune a model twice."""
    outputs = crc32(data) % 2 == 0
    after, _ = _written(data, lambda model, path: prune(model, path, outputs=outputs))
    _sound(after)
    with no_refusal("what was written cannot be pruned"):
        again, result = _written(after, lambda model, path: prune(model, path, outputs=outputs))
    assert again == after, "the second time changes something"
    assert not result.changes, f"the second time: {result.changes}"


def cut(data: bytes) -> None:
    """Extract a part of a model, with each form of request in turn."""
    number = crc32(data)
    first, tensor = number % 7, number // 7 % 30
    requests = (
        ExtractRequest(operators=f"{first}-{first + number // 210 % 5}"),
        ExtractRequest(to=(f"index:{tensor}",)),
        ExtractRequest(from_=(f"index:{tensor}",)),
        ExtractRequest(from_=(f"index:{number % 11}",), to=(f"index:{tensor}",)),
        ExtractRequest(origin="*", subgraph=number % 2),
    )
    request = requests[number % len(requests)]
    with open_model(data) as model:
        if model.signatures and number % 6 == 0:
            request = ExtractRequest(signature=model.signatures[-1].key)
    after, _ = _written(data, lambda model, path: extract(model, path, request))
    _sound(after)


def named(data: bytes) -> None:
    """Rename every tensor; the old file must follow unchanged, and renaming back must restore it."""
    with open_model(data) as model:
        edit = ModelEdit(model)
        before = edit.to_bytes()
        names = [
            (f"index:{index}", f"tensor {index}")
            for index in range(len(model.subgraphs[0].tensors) if model.subgraphs else 0)
        ]
        back = [(new, model.subgraphs[0].tensors[index].name) for index, (_, new) in enumerate(names)]
        rename(edit, RenameRequest(tensors=tuple(names), subgraph=0))
        after = edit.to_bytes()
    _sound(after)
    if all(old and "\0" not in old for _, old in back) and len({old for _, old in back}) == len(back):
        with open_model(after) as model:
            edit = ModelEdit(model)
            rename(edit, RenameRequest(tensors=tuple(back), subgraph=0))
            assert edit.to_bytes() == before, "renaming back does not give the original"


def ended(data: bytes) -> None:
    """Expose, reorder and sign; if one is refused, the others must remain possible."""
    with open_model(data) as model:
        edit = ModelEdit(model)
        changes: tuple[Callable[[], RewriteResult], ...] = (
            lambda: expose(edit, every=("*",)),
            lambda: sign(edit, SignatureRequest("fuzz")),
            lambda: reorder(edit, inputs=range(len(model.subgraphs[0].inputs))[::-1]),
        )
        refused = []
        for change in changes if model.subgraphs else ():
            try:
                change()
            except CircleToolsError as error:
                refused.append(error)
        _sound(edit.to_bytes())
    if refused:
        raise refused[0]


def cut_out(data: bytes) -> None:
    """Cut each operator out of a model, as `compare` does, and anonymize the last part; the parts must be sound."""
    with open_model(data) as model, subject_of(model) as subject:
        every = range(len(subject.graph.values))
        found = [one for one in tasks(subject, subject, dict(zip(every, every, strict=True))) if not one.skipped]
        for task in found:
            if not task.alone:
                _sound(b"".join(map(view, subject.cut_out(task.own))))
        candidates, choice = Candidates(subject.whole), Choice(0, tuple(one.operator for one in found[-1:]))
        excerpt = candidates.excerpt(choice)
        if excerpt is not None:
            _sound(candidates.file(anonymous(candidates, choice, excerpt)))


def shaped(data: bytes) -> None:
    """Set a batch size, with the constants that contain it, and fix dynamic dimensions."""
    for request in (ShapeRequest(batch=3, mend=True), ShapeRequest(static=True)):
        with open_model(data) as model:
            edit = ModelEdit(model)
            set_shape(edit, request)
            _sound(edit.to_bytes())


def repaired(data: bytes) -> None:
    """Apply all repairs; repeating them must change nothing."""
    with open_model(data) as model:
        edit = ModelEdit(model)
        repair(edit, tuple(REMEDIES))
        after = edit.to_bytes()
    _sound(after)
    with open_model(after) as model:
        edit = ModelEdit(model)
        repair(edit, tuple(REMEDIES))
        assert edit.to_bytes() == after, "twice is not once"


def bundle_seeds() -> list[bytes]:
    """Return a bundle of each kind."""
    model = path_of("tflite/scalar").read_bytes()
    return [task([("a", model), ("b.txt", b"text")]), litertlm([("a", 3, model), ("", 1, b"text"), ("c", 7, b"")])]


def bundled(data: bytes) -> None:
    """Replace each member by a model; the other members must not change."""
    with TemporaryDirectory() as folder:
        for member in bundle_members(memoryview(data)):
            bundle = Path(folder) / "bundle"
            bundle.write_bytes(data)
            others = [data[one.start : one.end] for one in bundle_members(memoryview(data)) if one != member]
            replace_member(f"{bundle}!{member.name}", path_of("tflite/cnn"))
            after = bundle.read_bytes()
            kept = [
                after[one.start : one.end] for one in bundle_members(memoryview(after)) if one.name != member.name
            ]
            assert len(kept) < len(others) or kept == others
