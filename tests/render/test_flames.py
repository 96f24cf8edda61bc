"""Time as stacks."""

from __future__ import annotations

import json

from circletools.render.profiles import collapsed_text, speedscope_text, stacks
from tests.render.test_attribution import FOUND


def test_stacks_add_up_to_the_measured_time() -> None:
    assert list(collapsed_text(FOUND)) == [
        "net;net::a;0/0 CONV_2D 750",
        "net;net::b;0/0 CONV_2D 750",
        "ADD;0/1 ADD y 301",
        "TfLiteGpuDelegateV2;2 operators 400",
        "(inserted);Permute 199",
    ]
    assert sum(time for _, time in stacks(FOUND)) == 2400


def test_the_document_of_speedscope() -> None:
    (text,) = speedscope_text(FOUND, "x.json")
    document = json.loads(text)
    (profile,) = document["profiles"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert (profile["name"], profile["endValue"], sum(profile["weights"])) == ("x.json", 2400, 2400)
    assert [names[frame] for frame in profile["samples"][1]] == ["net", "net::b", "0/0 CONV_2D"]
