"""The tree of modules."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from circletools.html.modules import ROOT as TOP
from circletools.html.modules import module_tree, operators_below, parts_of, time_below

names = st.lists(st.sampled_from(["a", "b", "::", "/", ".", ";", "long"]), max_size=8).map("".join)


def paths(tree: Any) -> list[str]:
    found: list[str] = []
    for parent, label in zip(tree.parents, tree.labels, strict=True):
        found.append((found[parent] if parent != TOP else "") + label)
    return found


@given(st.lists(names, max_size=12))
def test_the_tree_has_every_name(given_names: list[str]) -> None:
    tree = module_tree(given_names)
    ending: dict[int, list[str]] = {}
    for path, sources in zip(paths(tree), tree.sources, strict=True):
        for source in sources:
            ending.setdefault(source, []).append(path)
    for row, name in enumerate(given_names):
        expected = {path for path in name.split(";") if path} or {name}
        assert sorted(ending[row]) == sorted(expected)
    children = [tree.parents.count(row) for row in range(len(tree.parents))]
    assert all(count != 1 or sources for count, sources in zip(children, tree.sources, strict=True))


@given(st.lists(names, min_size=1, max_size=8), st.data())
def test_what_is_below_a_branch(given_names: list[str], draw: st.DataObject) -> None:
    tree = module_tree(given_names)
    rows = st.integers(0, len(given_names) - 1)
    sets = [sorted(one) for one in draw.draw(st.lists(st.sets(rows), max_size=5))]
    uses = draw.draw(st.lists(st.integers(0, 9), min_size=len(sets), max_size=len(sets)))

    def below(branch: int) -> set[int]:
        found = set(tree.sources[branch])
        return found.union(*(below(row) for row, parent in enumerate(tree.parents) if parent == branch))

    expected = [
        sum(used for one, used in zip(sets, uses, strict=True) if below(branch) & set(one))
        for branch in range(len(tree.parents))
    ]
    assert operators_below(tree, sets, uses) == expected
    times = {row: draw.draw(st.integers(0, 100)) for row in range(len(given_names))}
    totals = time_below(tree, times)
    assert sum(total for total, parent in zip(totals, tree.parents, strict=True) if parent == TOP) == sum(
        times.values()
    )


@given(st.text(alphabet="a:/.;", max_size=80))
def test_the_parts_of_a_path_are_the_path(path: str) -> None:
    assert "".join(parts_of(path)) == path
    assert len(parts_of(path)) <= 24


def test_the_last_part_holds_the_rest() -> None:
    assert parts_of("a/" * 30) == ["a/"] * 23 + ["a/" * 7]
