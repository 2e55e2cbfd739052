"""JAAS: the line of a login module in `sasl.jaas.config`.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_alice="secret";

A file has such lines in sections, NAME { LINE };

Only the module's last name and its options matter. A value may be quoted, with `\\` before a quote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_LINE = re.compile(r"\s*(?:[\w$]+\.)*([\w$]+)\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL)
_OPTION = re.compile(r"\s*([\w.-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s\"';]+))", re.DOTALL)
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_SECTION = re.compile(rf"\s*([\w.$-]+)\s*\{{((?:[^{{}}\"';]|{_QUOTED})*;)[^{{}}]*\}}\s*;", re.DOTALL)
_COMMENT = re.compile(rf"({_QUOTED})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class BadLine(Exception):
    """A text is no line of JAAS. It may hold passwords, so the message has nothing of it."""


class Module(NamedTuple):
    """A login module by its last name, with its options."""

    name: str
    options: Mapping[str, str]


def parse(text: str) -> Module:
    """Return the module of a line. Raises BadLine."""
    match = _LINE.fullmatch(text)
    if match is None:
        raise BadLine('must be CLASS required OPTION="VALUE" ...; with the semicolon')
    options, position = dict[str, str](), 0
    while match[2][position:].strip():
        option = _OPTION.match(match[2], position)
        if option is None:
            raise BadLine(f"an option after {len(options)} others cannot be read")
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        position = option.end()
    return Module(match[1], options)


def parse_file(text: str) -> Mapping[str, Module]:
    """Return the first module of each section of a JAAS file. Raises BadLine."""
    text = _COMMENT.sub(lambda match: match[1] or "", text)
    sections, position = dict[str, Module](), 0
    while text[position:].strip():
        section = _SECTION.match(text, position)
        if section is None:
            raise BadLine(f"what follows {len(sections)} sections is none: NAME {{ CLASS required OPTION=VALUE; }};")
        sections[section[1]] = parse(section[2])
        position = section.end()
    return sections
