"""A shell for the command lines of documents: `odradek` runs in the test's own process, other commands run as they are.

A process for each command would take half a second. Here a command gets the test's own descriptors 0 to 2 for as long
as it runs, so that it reads and writes as it does in a terminal's pipe.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from odradek.cli import main

_OPERATORS = set("|<>;&")
# A thread of librdkafka writes to the descriptor 2 of the process when the broker of its client has gone. An earlier
# test may have left such a client to the garbage collector.
_OF_LIBRDKAFKA = re.compile(rb"^%[0-7]\|\d+\.\d+\|.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """What became of a line: the status of its last command, its output, and the errors of all its commands."""

    status: int
    out: str
    err: str


def run_line(line: str, folder: Path, stdin: bytes = b"", *, reads_bytes: int | None = None) -> Ended:
    """Run a line of commands in pipes, with redirections to files of `folder`.

    With `reads_bytes` the reader of the last command goes away after that many, as `head` does.
    """
    status, data, errors, target = 0, stdin, "", None
    stages = _stages(line)
    for number, words in enumerate(stages):
        words, source, target = _redirections(words)
        if source is not None:
            data = (folder / source).read_bytes()
        is_last = number == len(stages) - 1
        if words[0] == "odradek":
            status, data, said = run_here(words[1:], data, reads_bytes if is_last else None)
            errors += said
        else:
            ended = subprocess.run(words, input=data, capture_output=True, cwd=folder, timeout=30, check=False)
            status, data, errors = ended.returncode, ended.stdout, errors + ended.stderr.decode()
    if target is not None:
        (folder / target).write_bytes(data)
        data = b""
    return Ended(status, data.decode(errors="backslashreplace"), errors)


def _stages(line: str) -> list[list[str]]:
    """The words of each command of a pipe, without a comment at the end."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    stages: list[list[str]] = [[]]
    for word in lexer:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    return stages


def _redirections(words: list[str]) -> tuple[list[str], str | None, str | None]:
    """The words of a command, the file that it reads and the file that it writes."""
    source = target = None
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "<":
            source = next(rest)
        elif word == ">":
            target = next(rest)
        else:
            assert not word or not set(word) <= _OPERATORS, f"this shell does not know {word}"
            plain.append(word)
    return plain, source, target


def run_here(
    args: list[str], stdin: bytes, reads_bytes: int | None = None, *, output: int | None = None
) -> tuple[int, bytes, str]:
    """Run a command of ours; return its status, its output and its errors.

    With `output` its standard output is that descriptor, and nothing is returned of it.
    """
    read_end, write_end = os.pipe()
    chunks: list[bytes] = []

    def read() -> None:
        size = 0
        while (reads_bytes is None or size < reads_bytes) and (chunk := os.read(read_end, 65536)):
            chunks.append(chunk)
            size += len(chunk)
        os.close(read_end)

    reader = threading.Thread(target=read)
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        with _streams(given.fileno(), write_end if output is None else output, errors.fileno()):
            os.close(write_end)
            reader.start()
            try:
                main(args, prog_name="odradek")
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
        reader.join()
        errors.seek(0)
        return status, b"".join(chunks), _OF_LIBRDKAFKA.sub(b"", errors.read()).decode()


@contextmanager
def _streams(*replacements: int) -> Iterator[None]:
    """The descriptors 0 to 2, and Python's files on them, are others for a while."""
    saved, files = [os.dup(number) for number in range(3)], (sys.stdin, sys.stdout, sys.stderr)
    for number, replacement in enumerate(replacements):
        os.dup2(replacement, number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    try:
        yield
    finally:
        for each in (sys.stdin, sys.stdout, sys.stderr):
            with suppress(OSError):  # its reader has gone; the command has said so with its status
                each.close()
        sys.stdin, sys.stdout, sys.stderr = files
        for number, copy in enumerate(saved):
            os.dup2(copy, number)
            os.close(copy)
