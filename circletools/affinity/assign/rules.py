"""Rules that put operators on devices, from a file or the command line.

    {"schema_version": 1, "default": "cpu", "rules": [{"select": "op:CONV_2D", "device": "npu"}, ...]}

or the `.part` file of the ONE compiler's circle-partitioner.
"""

from __future__ import annotations

from dataclasses import dataclass

from circletools.affinity.assign.documents import objects_of, read_document, selector_from, selector_of, text_of
from circletools.affinity.assign.partfile import parse_part
from circletools.errors import UsageError
from circletools.model.selectors import Selector


@dataclass(frozen=True, slots=True)
class Rule:
    """Operators and the device they go to. `place` says where the rule stands, for errors: `npu.json:12`."""

    selector: Selector
    device: str
    place: str
    from_command: bool = False

    @property
    def says(self) -> str:
        """Return what it says of an operator: rules that say the same do not contradict each other."""
        return self.device


@dataclass(frozen=True, slots=True)
class Decision:
    """A device that no rule of its own names: the default, or what an operator had before.

    `words` say which of the two, for people; `place` where a default stands, for errors.
    """

    device: str
    words: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules, in the order they are written, a default, and the devices where the document lists them."""

    rules: tuple[Rule, ...] = ()
    default: Decision | None = None
    devices: tuple[str, ...] = ()

    def and_then(self, other: RuleSet) -> RuleSet:
        """Return both; the other's default counts where it has one."""
        return RuleSet(self.rules + other.rules, other.default or self.default, other.devices or self.devices)


def make_default(device: str, place: str) -> Decision:
    """Return the decision for operators that nothing else decides."""
    return Decision(device, f"default ({place})", place)


def parse_setting(words: str, option: str = "--set") -> Rule:
    """Read SELECTOR=DEVICE of the command line. Raises UsageError."""
    selector, equals, device = words.rpartition("=")
    if not equals or not device:
        raise UsageError(f"{option} {words!r} names no device", hint=f"write {option} op:CONV_2D=npu")
    place = f"{option} {words}"
    return Rule(selector_from(selector, place), device, place, from_command=True)


def parse_rules(words: str, name: str) -> RuleSet:
    """Read a document by the ending of its name, `.part` or JSON.

    Raises InvalidInputError where it is no such document, UsageError for a selector that is none; both with the line.
    """
    return _parse_part(words, name) if name.lower().endswith(".part") else _parse_json(words, name)


def _parse_json(words: str, name: str) -> RuleSet:
    document, place = read_document(words, name, {"default", "rules"}, "`rules`", _SEE)
    default = make_default(text_of(document, "default", place, _SEE), place) if "default" in document else None
    rules = (
        Rule(selector_of(entry, at, _SEE), text_of(entry, "device", at, _SEE), at)
        for entry, at in objects_of(document, "rules", name, {"select", "device"}, _SEE)
    )
    return RuleSet(tuple(rules), default)


_SEE = "see docs/affinity.md"


def _parse_part(words: str, name: str) -> RuleSet:
    part = parse_part(words, name)
    by_code = part.comply == "opcode"
    rules = (
        Rule(Selector("op" if by_code else "name", key, literal=True), backend, f"{name}:{line}")
        for key, (backend, line) in (part.opcodes if by_code else part.opnames).items()
    )
    return RuleSet(tuple(rules), make_default(part.default, name), part.backends)
