"""JSON values as lines, one each, by a compiled loop.

Arrow's reader takes a stream of objects and cares little where lines end: a value that holds two
objects, or half of one, would move all rows behind it. So each value is walked here once: it is an
object whose brackets and strings are closed at its end and not before, or it is told why not and an
empty object takes its line. What lies between the brackets is the reader's to judge.
"""

from typing import Final

from ottla.spark.codec.kernels import Bytes, Ints, compiled

FINE: Final = 0
NO_OBJECT: Final = 1
CUT: Final = 2
MORE_BEHIND: Final = 3
TOO_DEEP: Final = 4
NOT_A_NUMBER: Final = 5
CONTROL_CHARACTER: Final = 6
SKIPPED: Final = 7
REASONS: Final = {
    NO_OBJECT: "the value is no JSON object",
    CUT: "the value ends within the object",
    MORE_BEHIND: "there is more behind the object",
    TOO_DEEP: "nested too deeply",
    NOT_A_NUMBER: "NaN and Infinity are no JSON",
    CONTROL_CHARACTER: "a control character within a string",
}
DEPTH_MAX: Final = 64
FILLER_SIZE: Final = 3


@compiled
def lay_lines(
    data: Bytes, starts: Ints, ends: Ints, states: Bytes, out: Bytes, line_ends: Ints
) -> int:
    """Write a line per row into ``out``, which holds all values and 3 bytes more for each.

    ``states`` tells which rows are ``SKIPPED`` and gets what is wrong with the others. Answers how
    many are neither ``FINE`` nor ``SKIPPED``.
    """
    at = 0
    wrong = 0
    for row in range(len(starts)):
        begin = at
        state = states[row]
        if state == FINE:
            depth = 0
            closed = False
            quoted = False
            escaped = False
            for place in range(starts[row], ends[row]):
                byte = data[place]
                if quoted:
                    if escaped:
                        escaped = False
                    elif byte == 0x5C:
                        escaped = True
                    elif byte == 0x22:
                        quoted = False
                    if byte < 0x20:
                        state = CONTROL_CHARACTER
                        break
                elif byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09:  # noqa: PLR1714
                    byte = 0x20
                elif closed:
                    state = MORE_BEHIND
                    break
                elif byte == 0x7B or byte == 0x5B:  # noqa: PLR1714
                    if depth == 0 and byte == 0x5B:
                        state = NO_OBJECT
                        break
                    depth += 1
                    if depth > DEPTH_MAX:
                        state = TOO_DEEP
                        break
                elif depth == 0:
                    state = NO_OBJECT
                    break
                elif byte == 0x7D or byte == 0x5D:  # noqa: PLR1714
                    depth -= 1
                    closed = depth == 0
                elif byte == 0x22:
                    quoted = True
                elif byte == 0x4E or byte == 0x49:  # noqa: PLR1714
                    state = NOT_A_NUMBER
                    break
                out[at] = byte
                at += 1
            if state == FINE and not closed:
                state = CUT if depth else NO_OBJECT
            if state != FINE:
                wrong += 1
                states[row] = state
        if state != FINE:
            at = begin
            out[at] = 0x7B
            out[at + 1] = 0x7D
            at += 2
        out[at] = 0x0A
        at += 1
        line_ends[row] = at
    return wrong
