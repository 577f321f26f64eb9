"""What an expression is made of, and the program that it becomes.

A program is a list of instructions that walk side by side (Thompson's construction): those that
take a character wait for it, the others lead on at once. Greedy and lazy are the same here: the
question is only whether a whole name matches.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from ottla.common.errors import InvalidRegularExpression

PROGRAM_MAX: Final = 4_000
"""Instructions of one expression; Kafka has no bound, and no topic name needs so many."""


class Position(Enum):
    """What an assertion asks of the place between two characters."""

    BEGIN = auto()
    END = auto()
    WORD_BOUNDARY = auto()
    NO_WORD_BOUNDARY = auto()


@dataclass(frozen=True, slots=True)
class OneOf:
    characters: int
    """A mask of :mod:`charset`."""


@dataclass(frozen=True, slots=True)
class At:
    position: Position


@dataclass(frozen=True, slots=True)
class Sequence:
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Alternation:
    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    item: "Node"
    low: int
    high: int | None


Node: TypeAlias = OneOf | At | Sequence | Alternation | Repeat


class Take(NamedTuple):
    """Take one character of ``characters`` and go on with the next instruction."""

    characters: int


class PositionCheck(NamedTuple):
    position: Position


class Split(NamedTuple):
    """Go on at both places; at one, when they are the same."""

    first: int
    second: int


class Accept(NamedTuple):
    pass


Instruction: TypeAlias = Take | PositionCheck | Split | Accept


def compiled(node: Node) -> list[Instruction]:
    program: list[Instruction] = []
    _emit(node, program)
    program.append(Accept())
    return program


def _add(program: list[Instruction], instruction: Instruction) -> int:
    if len(program) >= PROGRAM_MAX:
        raise InvalidRegularExpression("expression is too large")
    program.append(instruction)
    return len(program) - 1


def _emit(node: Node, program: list[Instruction]) -> None:
    match node:
        case OneOf(characters):
            _add(program, Take(characters))
        case At(position):
            _add(program, PositionCheck(position))
        case Sequence(items):
            for item in items:
                _emit(item, program)
        case Alternation(options):
            _emit_choice(options, program)
        case Repeat(item, low, high):
            for _ in range(low):
                _emit(item, program)
            if high is None:
                _emit_star(item, program)
            else:
                _emit_optional(item, high - low, program)


def _emit_choice(options: tuple[Node, ...], program: list[Instruction]) -> None:
    ends = []
    for option in options[:-1]:
        split = _add(program, Accept())
        _emit(option, program)
        ends.append(_add(program, Accept()))
        program[split] = Split(split + 1, len(program))
    _emit(options[-1], program)
    for end in ends:
        program[end] = Split(len(program), len(program))


def _emit_star(item: Node, program: list[Instruction]) -> None:
    split = _add(program, Accept())
    _emit(item, program)
    _add(program, Split(split, split))
    program[split] = Split(split + 1, len(program))


def _emit_optional(item: Node, count: int, program: list[Instruction]) -> None:
    """Up to ``count`` times: each further one only after the one before it."""
    splits = []
    for _ in range(count):
        splits.append(_add(program, Accept()))
        _emit(item, program)
    for split in splits:
        program[split] = Split(split + 1, len(program))
