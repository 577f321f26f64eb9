"""The name of a certificate's subject as Java prints it (RFC 2253), which is the principal's name.

The most specific part stands first: the reverse of the order in the certificate. Only as much of
DER is read as leads there.
"""

from typing import Final, NamedTuple

from ottla.common.errors import ApiError, ErrorCode

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Those that RFC 2253 has a short word for; others are told by number, and their value in hex."""
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_VERSION: Final = 0xA0
_TEXTS: Final = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1A: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_SPECIAL: Final = frozenset(',+"\\<>;')


class BadCertificate(ApiError):
    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class _Item(NamedTuple):
    tag: int
    start: int
    end: int


def _item(data: bytes, pos: int, end: int) -> _Item:
    """The tag at ``pos`` and where its contents are; they lie within ``end``."""
    try:
        tag, size = data[pos], data[pos + 1]
    except IndexError:
        raise BadCertificate("a certificate that ends too soon") from None
    pos += 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(data[pos : pos + count])
        pos += count
    if pos + size > end:
        raise BadCertificate("a certificate that ends too soon")
    return _Item(tag, pos, pos + size)


def _items(data: bytes, within: _Item) -> list[_Item]:
    found = []
    pos = within.start
    while pos < within.end:
        item = _item(data, pos, within.end)
        found.append(item)
        pos = item.end
    return found


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER."""
    try:
        return _subject_name(certificate)
    except (IndexError, ValueError) as error:
        raise BadCertificate("a certificate that cannot be read") from error


def _subject_name(certificate: bytes) -> str:
    whole = _item(certificate, 0, len(certificate))
    signed = _items(certificate, whole)[0]
    fields = [each for each in _items(certificate, signed) if each.tag != _VERSION]
    if len(fields) < 5 or fields[4].tag != _SEQUENCE:
        raise BadCertificate("a certificate without a subject")
    parts = [_part(certificate, each) for each in _items(certificate, fields[4])]
    return ",".join(reversed(parts))


def _part(data: bytes, within: _Item) -> str:
    """One set of attributes; nearly always it has one."""
    if within.tag != _SET:
        raise BadCertificate("a subject that is no name")
    return "+".join(_attribute(data, each) for each in _items(data, within))


def _attribute(data: bytes, within: _Item) -> str:
    object_id, value = _items(data, within)[:2]
    if object_id.tag != _OBJECT_ID:
        raise BadCertificate("a subject that is no name")
    number = _dotted(data[object_id.start : object_id.end])
    name = _NAMES.get(number)
    encoding = _TEXTS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or number}=#{data[object_id.end : value.end].hex()}"
    return f"{name}={_escaped(data[value.start : value.end].decode(encoding))}"


def _dotted(encoded: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in encoded:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise BadCertificate("an attribute without a number")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{each}" if each in _SPECIAL else each for each in text)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and len(text) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped
