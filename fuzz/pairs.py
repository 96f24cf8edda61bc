"""Targets that read two models, one of them hostile: differences, and origins tracked from one to the other.

The second model is one of testdata, chosen by the input, or the input itself.
"""

from __future__ import annotations

import json
from zlib import crc32

from circletools.diff.difference import ModelDifference, compare_models
from circletools.errors import CircleToolsError
from circletools.model.digests import attest
from circletools.model.model import Model, open_model
from circletools.origin.embed import ORIGIN_ENTRIES, embed
from circletools.origin.tracking.tracker import track
from circletools.render.difference import difference_json, difference_text
from circletools.render.table import document_json
from circletools.render.tracking import tracking_json, tracking_text
from fuzz.models import exhaust, rewritten
from fuzz.seeds import model_seed

_OTHERS = ("circle/inception", "circle/while_loop", "tflite/cnn_int8", "tflite/zip_tail", "circle/mlp_external")


def _other(data: bytes) -> bytes:
    return (data, *map(model_seed, _OTHERS))[crc32(data) % (1 + len(_OTHERS))]


def difference(data: bytes) -> None:
    """Compare two models in both directions; the results must be mirror images."""
    with open_model(_other(data)) as before, open_model(data) as after:
        found, mirrored = compare_models(before, after), compare_models(after, before)
        assert found.identical == mirrored.identical
        assert len(found.changes) == len(mirrored.changes)
        _show(found, before, after)
        _show(mirrored, after, before)
        if before.format == after.format:
            assert json.dumps(document_json(attest(before, after)))


def _show(found: ModelDifference, before: Model, after: Model) -> None:
    assert json.dumps(difference_json(found, before, after))
    for full in (False, True):
        exhaust(difference_text(found, before, after, full=full))


def tracking(data: bytes) -> None:
    """Track origins between the two models in both directions, and embed the results."""
    other = _other(data)
    with open_model(other) as before:
        try:
            _embed_tracked(before, data)
        except CircleToolsError:
            with open_model(data) as model:
                track(model, before)
            raise


def _embed_tracked(before: Model, data: bytes) -> None:
    with open_model(data) as after:
        found = track(before, after)
        for subgraph in found.grounds:
            for sources in subgraph.values():
                assert all(0 <= grounds.confidence <= 1 for grounds in sources.values())
        assert json.dumps(tracking_json(found))
        exhaust(tracking_text(found))
        again = track(after, before)
        assert len(again.grounds) == len(before.subgraphs)
    done = rewritten(data, lambda edit: embed(edit, found.origins, replace=True), ORIGIN_ENTRIES)
    assert done.new.subgraphs == done.old.subgraphs
