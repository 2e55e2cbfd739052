"""What a certificate says: its distinguished name as Java prints it, and its alternative names (X.509 in DER).

Java's text is that of RFC 2253: the last part first, `CN=alice,OU=ops,O=Acme\\, Inc`. Nine attributes have a word. Any
other is its number and the bytes of its value in hexadecimal, such as `1.2.840.113549.1.9.1=#1605614062...`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_WORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# Tags of texts, with their encodings: UTF8String, PrintableString, T61String, IA5String, UniversalString, BMPString.
_TEXTS = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
_ESCAPED = frozenset(',=+<>#;"\\')
_SEQUENCE, _SET, _VERSION, _EXTENSIONS = 0x30, 0x31, 0xA0, 0xA3
_ALTERNATIVE_NAMES = "2.5.29.17"
# Where the subject stands behind the version: after serial number, algorithm, issuer and validity.
_SUBJECT_INDEX = 4


class CertificateError(Exception):
    """A certificate cannot be read."""


class _Element(NamedTuple):
    """One element of DER. `whole` has the bytes with tag and length."""

    tag: int
    content: bytes
    whole: bytes


def subject_name(certificate: bytes) -> str:
    """Return the distinguished name of a certificate's subject, as Java prints it. CertificateError if unreadable."""
    subject = _fields(certificate)[_SUBJECT_INDEX]
    parts = (_relative_name(each) for each in _elements(subject.content))
    return ",".join(reversed(list(parts)))


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """Return the subject alternative names of a certificate, each as its bytes. CertificateError if unreadable."""
    for field in _fields(certificate):
        if field.tag == _EXTENSIONS:
            for extension in _elements(_only(field.content).content):
                number, *_, value = _elements(extension.content)
                if _number(number.content) == _ALTERNATIVE_NAMES:
                    return frozenset(each.whole for each in _elements(_only(value.content).content))
    return frozenset()


def _fields(certificate: bytes) -> list[_Element]:
    """Return the fields of the part that is signed, without the version."""
    fields = list(_elements(_only(_only(certificate).content).content))
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) <= _SUBJECT_INDEX:
        raise CertificateError("it has no subject")
    return fields


def _only(data: bytes) -> _Element:
    for element in _elements(data):
        return element
    raise CertificateError("it ends too early")


def _elements(data: bytes) -> Iterator[_Element]:
    """Yield the elements that stand one after the other in `data`."""
    position = 0
    while position < len(data):
        start, position = position, position + 2
        header = data[start:position]
        if len(header) < 2:
            raise CertificateError("it ends too early")
        length = header[1]
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[position : position + count])
            position += count
        end = position + length
        if end > len(data):
            raise CertificateError("it ends too early")
        yield _Element(header[0], data[position:end], data[start:end])
        position = end


def _number(content: bytes) -> str:
    """Return an object identifier in its dotted form."""
    parts: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            parts.append(value)
            value = 0
    if not parts:
        raise CertificateError("it has an empty object identifier")
    first = min(parts[0] // 40, 2)
    return ".".join(map(str, (first, parts[0] - 40 * first, *parts[1:])))


def _relative_name(part: _Element) -> str:
    """Return one part of a name; it may have several attributes."""
    return "+".join(_attribute(each) for each in _elements(part.content))


def _attribute(element: _Element) -> str:
    found = list(_elements(element.content))
    if len(found) != 2:
        raise CertificateError("a part of its name is no attribute and value")
    number, value = _number(found[0].content), found[1]
    word, encoding = _WORDS.get(number), _TEXTS.get(value.tag)
    if word is None or encoding is None:
        return f"{word or number}=#{value.whole.hex()}"
    return f"{word}={_escape(value.content.decode(encoding, 'replace'))}"


def _escape(text: str) -> str:
    escaped = ["\\" + char if char in _ESCAPED else "\\00" if char == "\0" else char for char in text]
    leading = len(text) - len(text.lstrip(" "))
    for index in (*range(leading), *range(max(leading, len(text.rstrip(" "))), len(text))):
        escaped[index] = "\\ "
    return "".join(escaped)
