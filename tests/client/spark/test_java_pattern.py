"""Java's regular expressions for topics: the same names match, or the pattern is rejected."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from odradek.client.spark.columns import OptionError
from odradek.client.spark.option_texts import compile_pattern

NAMES = [
    "events-1", "xevents-", "ab", "ac", "a.b", "abc12", "aa", "abc", "dx", "cd", "b", "A", "a_b", "9", "a-", "Events.9",
]  # fmt: skip
PATTERNS = [
    "events-.*", "^events", "b$", "^a[a-z]$", r"^\w+\d{2,}$", "(?i)EVENTS", "^[^a-c]", "a|^b$", r"[\w-]+x",
    "^(?:ab|cd)$", "a++b", "^(?!a).", r"\x61b", "^[a-c]{2}$", r"\.", "(?i:A)b", "[-a]$", r"[\d.]", "(a)\\1",
    r"[\]a]b", "(?<=a)b", "(?>a+)b",
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
    assert compile_pattern("subscribePattern", "^[ac]").search("bac") is None


REJECTED = [
    "", "(", "[a", "a{2,1}", r"\p{Greek}", r"\X", "(?x) a", "a(?i)b", "[b-a]", "\\", r"\k<n", "[a-z&&[^b]]", "[a[bc]]",
    r"\Qa.b\E", "(?<n>a)", "(?P<n>a)", "(?#a)", "(?a)a", "[]a]", "[^]a]", "a{,2}", r"a\z", r"a\Z", r"[\b]",
    "[[:alpha:]]", "(?(1)a)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", REJECTED)
def test_what_python_does_not_share_is_rejected(pattern: str) -> None:
    with pytest.raises(OptionError, match="subscribePattern"):
        compile_pattern("subscribePattern", pattern)
