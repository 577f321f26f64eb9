"""Whether a topic name as a whole matches: all ways through the program at once.

A set of instructions walks over the name. Where such a set has been before, with the same
character, is remembered: most names then cost a look into a dictionary for each character. The
memory is bounded; ``work`` counts the instructions that were really walked.
"""

from typing import Final

from ottla.coordinator.group.regex import charset
from ottla.coordinator.group.regex.nodes import (
    Accept,
    Instruction,
    Position,
    PositionCheck,
    Split,
    Take,
    compiled,
)
from ottla.coordinator.group.regex.parser import parse

REMEMBERED_MAX: Final = 4_096
_NOTHING: Final = -1
"""In the place of a character, before the first and after the last."""

_States = frozenset[int]


class Matcher:
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.work = 0
        self._program: list[Instruction] = compiled(parse(expression))
        self._memory: dict[tuple[_States, bool | None, int], _States] = {}

    def matches(self, name: str) -> bool:
        states: _States = frozenset((0,))
        before: bool | None = None
        """Whether the character before this one is of a word; None at the beginning."""
        for character in name:
            code = ord(character)
            if code >= charset.SIZE:
                return False
            key = (states, before, code)
            following = self._memory.get(key)
            if following is None:
                following = self._step(states, before, code)
                if len(self._memory) >= REMEMBERED_MAX:
                    self._memory.clear()
                self._memory[key] = following
            self.work += 1
            if not following:
                return False
            states, before = following, _is_word(code)
        reached = self._reached(states, before, _NOTHING)
        return any(isinstance(self._program[each], Accept) for each in reached)

    def _step(self, states: _States, before: bool | None, code: int) -> _States:
        following = set()
        for index in self._reached(states, before, code):
            instruction = self._program[index]
            if isinstance(instruction, Take) and instruction.characters >> code & 1:
                following.add(index + 1)
        return frozenset(following)

    def _reached(self, states: _States, before: bool | None, code: int) -> set[int]:
        """All instructions that can be come to from ``states`` without taking a character."""
        seen = set(states)
        waiting = list(states)
        while waiting:
            index = waiting.pop()
            instruction = self._program[index]
            onward: tuple[int, ...] = ()
            if isinstance(instruction, Split):
                onward = (instruction.first, instruction.second)
            elif isinstance(instruction, PositionCheck) and _holds(
                instruction.position, before, code
            ):
                onward = (index + 1,)
            for target in onward:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        self.work += len(seen)
        return seen


def _is_word(code: int) -> bool:
    return code != _NOTHING and bool(charset.WORD >> code & 1)


def _holds(position: Position, before: bool | None, code: int) -> bool:
    match position:
        case Position.BEGIN:
            return before is None
        case Position.END:
            return code == _NOTHING
        case Position.WORD_BOUNDARY:
            return bool(before) != _is_word(code)
        case Position.NO_WORD_BOUNDARY:
            return bool(before) == _is_word(code)
