"""What the documents say is so: commands parse, links lead somewhere, pictures and maps show what is in the code."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import Enum
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

import click
import pytest
from odradek.broker.coordination.classic import states as groups
from odradek.broker.coordination.transactions import states as transactions
from odradek.cli import main
from odradek.tests.support.documents.tools import tool

ROOT = Path(__file__).parent.parent
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ARCHITECTURE = ROOT / "docs" / "architecture.md"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^(?: {4}.*\n)+", re.MULTILINE)
_INLINE = re.compile(r"`(odradek [^`\n]+)`")
_COMMAND = re.compile(r"(?:^|\| |\$ |&& )(odradek [a-z].*)$")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(path: Path) -> Iterator[str]:
    """The command lines of our own in a document's blocks of code: alone, behind a `$`, or in a pipe."""
    text = path.read_text(encoding="utf-8")
    blocks = [match[2] for match in _FENCE.finditer(text) if match[1] in ("", "sh", "shell", "bash", "console")]
    blocks += [match[0] for match in _INDENTED.finditer(_FENCE.sub("", text))]
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        if found := _COMMAND.search(line.strip()):
            yield found[1]


def mentions(path: Path) -> Iterator[str]:
    """Within a sentence, where an argument may be left out."""
    yield from _INLINE.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))


def examples(command: click.Command) -> Iterator[str]:
    """Of a command's help, and of all commands below it."""
    for line in (command.help or "").splitlines():
        if found := _COMMAND.search(line.strip()):
            # What explains an example stands behind it, two blanks away.
            yield found[1].split("  ")[0]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from examples(below)


def words_of(line: str) -> list[str]:
    """Up to where the shell takes over: a comment, a pipe, a redirection, another command."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("|<>;&"):
            break
        words.append(word)
    return words


def find(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that is meant, and what follows its name."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found, f"there is no command {words[0]!r}"
        command, words = found, words[1:]
    return command, words


def parse(line: str) -> None:
    """As the command line would read it; nothing is run."""
    command, words = find(words_of(line)[1:])
    if isinstance(command, click.Group):
        assert set(words) <= {"--help", "--version"}, words
    elif "--help" not in words:
        command.make_context(command.name, words)


# Shown with the error that it gets: tests/test_docs_commands.py compares it.
REFUSED = "odradek consume -t flights"
COMMANDS = [
    (name_of(path), line) for path in DOCS for line in dict.fromkeys(commands(path)) if not line.startswith(REFUSED)
]
MENTIONS = [(name_of(path), line) for path in DOCS for line in dict.fromkeys(mentions(path))]


def test_there_are_commands_in_the_documents() -> None:
    assert len(COMMANDS) > 30


def by_page(found: Iterable[tuple[str, str]]) -> list[Any]:
    """The texts of each document as one parameter: there are hundreds."""
    pages: dict[str, list[str]] = {}
    for where, text in found:
        pages.setdefault(where, []).append(text)
    return [pytest.param(where, texts, id=where) for where, texts in pages.items()]


@pytest.mark.parametrize(
    ("where", "lines"), by_page([*COMMANDS, *(("--help", line) for line in dict.fromkeys(examples(main)))])
)
def test_commands_in_documents_and_helps_parse(where: str, lines: list[str]) -> None:
    for line in lines:
        try:
            parse(line)
        except (click.UsageError, AssertionError) as error:
            said = error.format_message() if isinstance(error, click.UsageError) else error
            pytest.fail(f"{where}: {line}: {said}")


@pytest.mark.parametrize(("where", "lines"), by_page(MENTIONS))
def test_commands_within_sentences_exist(where: str, lines: list[str]) -> None:
    for line in lines:
        command, words = find(words_of(line)[1:])
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known | {"--help", "--version"}, (where, line)


SNIPPETS = [
    (name_of(path), match[2]) for path in DOCS for match in _FENCE.finditer(path.read_text()) if match[1] == "python"
]


@pytest.mark.parametrize(("where", "snippets"), by_page(SNIPPETS))
def test_python_in_documents_compiles_and_imports_what_is_there(where: str, snippets: list[str]) -> None:
    for code in snippets:
        compile(code, where, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(ast.parse(f"async def _():\n{indent(code, '    ')}")):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("odradek"):
                module = importlib.import_module(node.module or "")
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == [], (where, code)


def test_links_lead_somewhere() -> None:
    for path, link in ((each, link) for each in DOCS for link in _LINK.findall(each.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        other = (path.parent / target).resolve() if target else path
        assert other.exists(), (path, link)
        assert not anchor or anchor in anchors(other), (path, link)


@cache
def anchors(path: Path) -> set[str]:
    """Of the headings, as they are made on the page: small letters, blanks to hyphens, other signs dropped."""
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "legal"), [("groups.md", groups.LEGAL), ("transactions.md", transactions.LEGAL)])
def test_the_picture_of_states_has_each_legal_move_with_its_words(page: str, legal: Mapping[Enum, Set[Enum]]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    picture = text[text.index("stateDiagram-v2") :].partition("```")[0]
    drawn = re.findall(r"^    (\w+) --> (\w+) : \w", picture, re.MULTILINE)
    moves = [(source.value, target.value) for source, targets in legal.items() for target in targets]
    assert sorted(drawn) == sorted(moves)


def test_the_picture_of_the_rooms_names_folders_of_code() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rooms = re.findall(r'\["([\w/]+)"\]', text[text.index("```mermaid") : text.index("## Floors")])
    assert len(rooms) > 10
    assert set(map(Path, rooms)) <= set(tool("house").folders())


def test_every_call_on_the_map_is_an_import() -> None:
    house = tool("house")
    text = ARCHITECTURE.read_text(encoding="utf-8")
    block = text[text.index("## Who calls whom") : text.index("## Hand-overs")]
    arrows = re.findall(r"^([\w/]+) -> (.*)$", block, re.MULTILINE)
    assert len(arrows) > 20
    for source, targets in arrows:
        real = {str(each.with_suffix("")) for each in house.imports(Path(f"{source}.py"))}
        assert set(targets.split(", ")) <= real, f"{source} does not import {set(targets.split(', ')) - real}"


def test_each_decision_has_a_number_of_its_own() -> None:
    paths = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    titles = [path.read_text(encoding="utf-8").partition(".")[0] for path in paths]
    assert titles == [f"# {int(path.name[:4])}" for path in paths]
    assert len(set(titles)) == len(titles)


def test_the_index_of_the_documents_names_every_page() -> None:
    folder = Path(__file__).parents[1] / "docs"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in folder.glob("*.md") if f"]({page.name})" not in index and page.name != "README.md"
    ] == []


def test_the_page_of_commands_is_what_the_tool_prints_and_has_every_option() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    tool_path = ROOT / "tools" / "command_docs.py"
    made = subprocess.run([sys.executable, tool_path], capture_output=True, text=True, check=True).stdout
    assert page == made, "run: python tools/command_docs.py > docs/commands.md"
    sections = {name: text for name, _, text in (each.partition("\n") for each in page.split("\n## ")[1:])}
    for path, command in leaves(main, "odradek"):
        (section,) = (text for name, text in sections.items() if f"{name} ".startswith(f"{path} "))
        named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", section))
        wanted = {
            name for each in command.params if isinstance(each, click.Option) and not each.hidden for name in each.opts
        }
        assert wanted <= named, path


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Each command that does something, with all the words of its name."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(context := click.Context(command)):
        below = command.get_command(context, name)
        assert below
        yield from leaves(below, f"{path} {name}")
