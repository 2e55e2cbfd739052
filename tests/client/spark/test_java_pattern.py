"""Java's regular expressions for topics: the same names match, or the pattern is rejected."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from odradek.client.spark.errors import OptionError
from odradek.client.spark.java_pattern import compile_pattern

NAMES = [
    "events-1", "xevents-", "ab", "ac", "a.b", "abc12", "aa", "abc", "dx", "cd", "b", "A", "a_b", "9", "a-", "Events.9",
]  # fmt: skip
PATTERNS = [
    "events-.*", "^events", "b$", "^a[a-z&&[^b]]$", "[a-z&&[^b]]$", r"\Qa.b\E", r"^\p{Alpha}+\d{2,}$", r"(?<n>a)\k<n>",
    "(?i)EVENTS", "^[^a-c]", "[a[bc]]d", "a|^b$", r"[\w-]+x", r"^\p{Lu}", r"\P{Alnum}", "^[a-z&&def]", "^(?:ab|cd)$",
    "a++b", "^(?!a).", r"^.{1}\z", r"\x61b", "[A-Z&&[^E]]", "^[a-c]{2}$", r"\.", "(?i:A)b", "[-a]$", r"[\d.]", "(a)\\1",
]  # fmt: skip

PROGRAM = """
import java.util.regex.Pattern;
public class Matches {
    public static void main(String[] given) {
        int names = Integer.parseInt(given[0]);
        for (int at = 1 + names; at < given.length; at++) {
            StringBuilder line = new StringBuilder();
            Pattern pattern = Pattern.compile(given[at]);
            for (int name = 1; name <= names; name++) line.append(pattern.matcher(given[name]).find() ? '1' : '0');
            System.out.println(line);
        }
    }
}
"""


def matches(pattern: str) -> str:
    compiled = compile_pattern("subscribePattern", pattern)
    return "".join("1" if compiled.search(name) else "0" for name in NAMES)


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java to compare with")
def test_the_same_names_match_as_in_java(tmp_path: Path) -> None:
    program = tmp_path / "Matches.java"
    program.write_text(PROGRAM)
    command = ["java", "-XX:TieredStopAtLevel=1", str(program), str(len(NAMES)), *NAMES, *PATTERNS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {pattern: matches(pattern) for pattern in PATTERNS} == dict(zip(PATTERNS, done.stdout.split(), strict=True))


def test_a_pattern_is_searched_anywhere_unless_it_is_anchored() -> None:
    assert matches("^events") != matches("events")
    assert compile_pattern("subscribePattern", "[a-z&&[^b]]").search("b-b") is None


REJECTED = ["", "(", "[a", "a{2,1}", r"\p{Greek}", r"\X", "(?x) a", "a(?i)b", "[b-a]", "\\", r"\k<n"]


@pytest.mark.parametrize("pattern", REJECTED)
def test_what_cannot_be_translated_is_rejected(pattern: str) -> None:
    with pytest.raises(OptionError, match="subscribePattern"):
        compile_pattern("subscribePattern", pattern)
