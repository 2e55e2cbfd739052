"""The .properties reader gives what java.util.Properties.load gave for the same texts (run once, carried here)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.configs.properties import PropertiesError, load, parse


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("  a : b ", {"a": "b "}),
        ("a b=c", {"a": "b=c"}),
        ("a\t=\f b", {"a": "b"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("#a=b\n  ! c=d\n\n", {}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n    two", {"a": "one,two"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=1\\\n#2", {"a": "1#2"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        (r"a=\t\n\r\f\q\u0041\\", {"a": "\t\n\r\fqA\\"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        ("#c\\\na=1", {"a": "1"}),
        ("\\\n!n", {}),
        ("\\\n", {"": ""}),
        ("log.dirs = C:\\\\data", {"log.dirs": "C:\\data"}),
    ],
)
def test_reads_what_java_reads(text: str, pairs: dict[str, str]) -> None:
    assert parse(text) == pairs


def test_bad_unicode_escape_is_named_with_its_line() -> None:
    with pytest.raises(PropertiesError, match=r"server\.properties:3: .*four hexadecimal digits"):
        parse("# one\na=1\nb=\\u12x\n", "server.properties")


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
def test_escaped_text_comes_back(pairs: dict[str, str]) -> None:
    def escape(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in pairs.items())
    assert parse(text) == pairs


@given(st.text(alphabet="\\=: \t#!\n\rabu0041"))
def test_any_text_gives_pairs_or_a_typed_error(text: str) -> None:
    try:
        parse(text)
    except PropertiesError as error:
        assert error.line >= 1


def test_a_file_in_latin_1_is_read_as_older_java_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("broker.rack=Zürich\n".encode("latin-1"))
    assert load(path) == {"broker.rack": "Zürich"}
    path.write_bytes("broker.rack=Zürich\n".encode("utf-8-sig"))  # and as editors write it that mark UTF-8
    assert load(path) == {"broker.rack": "Zürich"}


def test_a_missing_file_and_a_huge_one_are_typed_errors(tmp_path: Path) -> None:
    with pytest.raises(PropertiesError, match="No such file"):
        load(tmp_path / "none")
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(5 << 20)
    with pytest.raises(PropertiesError, match="over 4 MiB"):
        load(huge)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"listeners": "PLAINTEXT://:9092"}', 1),
        ("# Odradek\n\nA Kafka broker that is one install away.\n", 3),
        ("num.partitions=3\nlisteners\n", 2),
        ("\x7fELF\x02\x01=\x00\x00", 1),
        ("[broker]\nnode.id = 1\n", 1),
    ],
)
def test_a_file_that_is_no_properties_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "server.properties"
    path.write_text(text)
    with pytest.raises(
        PropertiesError, match=rf"server\.properties:{line}: is not NAME=VALUE, so this is no properties"
    ):
        load(path)


def test_the_signs_and_blanks_that_java_takes_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions 3\nlog.dirs : /a b\nbroker.rack=\n")
    assert load(path) == {"num.partitions": "3", "log.dirs": "/a b", "broker.rack": ""}
