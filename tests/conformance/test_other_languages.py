"""The helpers of docs/other-languages.md start a broker, as copied, where their language is installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from odradek.client.blocking import Admin

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "other-languages.md").read_text(encoding="utf-8")

_GO_TEST = """package main
import ("os"; "testing")
func TestAddress(t *testing.T) { os.WriteFile("address", []byte(kafka(t)), 0o600); os.Stdin.Read(make([]byte, 1)) }
"""
_JAVA_TEST = """
import java.nio.file.*;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
@ExtendWith(Odradek.class)
class AddressTest {
    @Test void address(String found) throws Exception {
        Files.writeString(Path.of("address"), found);
        System.in.read();
    }
}
"""
_NODE_TEST = """import { writeFileSync } from "node:fs";
import { kafka } from "./odradek.mjs";
writeFileSync("address", await kafka());
process.stdin.once("data", () => process.exit());
"""
_RUST_MAIN = """mod common;
fn main() {
    std::fs::write("address", common::kafka()).unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
"""


def block(language: str) -> str:
    """Return the code of a language on the page."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def go(folder: Path) -> list[str]:
    (folder / "go.mod").write_text("module odradek\n\ngo 1.21\n")
    (folder / "odradek_test.go").write_text(block("go"))
    (folder / "address_test.go").write_text(_GO_TEST)
    subprocess.run(["go", "test", "-c", "-o", "tests"], cwd=folder, check=True, timeout=300)
    return ["./tests"]


def java(folder: Path) -> list[str]:
    jar = os.environ["JUNIT_JAR"]
    (folder / "Odradek.java").write_text(block("java"))
    (folder / "AddressTest.java").write_text(_JAVA_TEST)
    command = ["javac", "-cp", jar, "-d", ".", "Odradek.java", "AddressTest.java"]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    return ["java", "-jar", jar, "execute", "--disable-banner", "-cp", ".", "-c", "AddressTest"]


def node(folder: Path) -> list[str]:
    (folder / "odradek.mjs").write_text(block("js"))
    (folder / "test.mjs").write_text(_NODE_TEST)
    return ["node", "test.mjs"]


def rust(folder: Path) -> list[str]:
    (folder / "common.rs").write_text(block("rust"))
    (folder / "main.rs").write_text(_RUST_MAIN)
    subprocess.run(["rustc", "-C", "debuginfo=0", "main.rs"], cwd=folder, check=True, timeout=300)
    return ["./main"]


LANGUAGES = {"go": go, "java": java, "node": node, "rustc": rust}


@pytest.mark.parametrize("tool", LANGUAGES)
def test_a_helper_starts_a_broker_that_ends_with_its_process(tool: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    if tool == "go" and "ODRADEK_LANGUAGES" not in os.environ:
        pytest.skip("it compiles for half a minute: `make conformance` runs it")
    if tool == "java" and "JUNIT_JAR" not in os.environ:
        pytest.skip("set JUNIT_JAR to the jar of junit-platform-console-standalone")
    command = LANGUAGES[tool](tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, env=os.environ | {"PATH": path}) as process:
        try:
            address = _address(tmp_path / "address", process)
            with Admin(address) as admin:
                assert admin.list_topics() == []
        finally:
            process.kill()
    _until_nobody_listens(address)


def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    until_s = time.monotonic() + 60
    while not (file.exists() and (text := file.read_text())):
        assert process.poll() is None and time.monotonic() < until_s, "it wrote no address"
        time.sleep(0.05)
    return text


def _until_nobody_listens(address: str) -> None:
    host, _, port = address.rpartition(":")
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail("the broker has outlived the process that started it")
