"""What one of the models has in very many places is charged to the budget of its file."""

from __future__ import annotations

import pytest

from circletools.diff.difference import compare_models
from circletools.errors import ModelFormatError
from circletools.model.model import open_model
from tests.kit.attacks.shared import Sharing
from tests.kit.support import bytes_of


@pytest.mark.parametrize(("places", "refused"), [(20_000, False), (60_000, True)])
def test_each_place_of_what_only_one_model_has_is_charged(places: int, refused: bool) -> None:
    raw = Sharing()
    data = raw.plain([raw.operator()] * places)
    with open_model(bytes_of("circle/mlp")) as one, open_model(data) as other:
        if refused:
            with pytest.raises(ModelFormatError, match="added operators have 15359744 bytes together"):
                compare_models(one, other)
        else:
            assert len(compare_models(one, other).changes) > places
