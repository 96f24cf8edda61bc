"""Words of other libraries with their counterparts in this one, and which words mean the same."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from circletools.wording import nearest


@cache
def foreign() -> Any:
    """Return words and names from other libraries, with their counterparts in this one."""
    return json.loads(Path(__file__).parent.with_name("foreign.json").read_bytes())


def plain_name(name: str) -> str:
    """Return a name without the suffixes that flatc adds to the names of generated methods."""
    return re.sub(r"^(GetRootAs)[A-Z]\w*|(?<=[a-z])(AsNumpy|IsNone|Length)$", r"\1", name)


@cache
def meanings(name: str) -> frozenset[str]:
    """Return a name's words in lower case and singular, without fillers; synonyms become this library's words."""
    same = {one: word for word, others in foreign()["words"].items() for one in others.split()}
    found = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", plain_name(name))
    fillers = {*foreign()["fillers"].split()}
    telling = [word for word in found if not fillers & {word.lower(), word.lower().removesuffix("s")}]
    words = [word.lower().removesuffix("s") for word in telling or found]
    return frozenset(same.get(word, word) for word in words if word)


def same_name(word: str, names: Sequence[str]) -> str:
    """Return the parameter with the same name or meaning, or a similar name; empty if there is none."""
    spellings = re.sub("_names?$", "s", word), word.removesuffix("s")
    words = " ".join(foreign()["parameters"].get(one, "") for one in spellings).split()
    ways = (one for one in names if one in (word, f"{word}_", *words) or meanings(one) == meanings(word))
    return next(ways, "") or nearest(word, (one for one in names if len(one) < 2 * len(word)))


def known_word(value: object, words: Sequence[object]) -> str:
    """Return the word that is meant, by its letters or its meaning; empty if there is none."""
    word, known = str(value), [*map(str, words)]
    return word if word in known else same_name(word, known) or nearest(word, known)
