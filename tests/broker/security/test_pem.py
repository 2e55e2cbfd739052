"""PEM stores: what is a section, and what a text that is made to take long costs."""

from __future__ import annotations

import time

import pytest
from odradek.broker.security import pem

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAA--AA\n-----END RSA PRIVATE KEY-----"


def test_a_section_stands_between_two_lines_of_one_label() -> None:
    text = f"words -----\n-----BEGIN LOST-----\n{CERTIFICATE}\n{KEY}\n{CERTIFICATE}\n-----BEGIN CERTIFICATE-----\n"
    assert pem.key_store(text, "here") == (KEY + "\n", f"{CERTIFICATE}\n{CERTIFICATE}\n")


@pytest.mark.parametrize("text", ["-----BEGIN A-----", "-----BEGIN ", "-----BEGIN A", "-", "A-"])
def test_no_text_is_searched_twice(text: str) -> None:
    began_s = time.thread_time()
    with pytest.raises(pem.StoreError, match="has 0 private keys"):
        pem.key_store(text * (pem.MAX_PEM_BYTES // len(text)), "here")
    assert time.thread_time() - began_s < 2


def test_a_text_that_is_very_long_is_no_store() -> None:
    with pytest.raises(pem.StoreError, match="over 1024 KiB"):
        pem.certificates(CERTIFICATE + " " * pem.MAX_PEM_BYTES, "here")
