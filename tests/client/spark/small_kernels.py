"""A module of kernels that compiles quickly: what tests/client/spark/test_machine_code.py compiles."""
# pyright: basic

from __future__ import annotations

import os

import numba
from odradek.client.spark.memory import load64, store64

if os.environ.get("COMPILATIONS"):  # tests count how often it is compiled
    with open(os.environ["COMPILATIONS"], "a") as file:
        file.write("compiled\n")


@numba.njit
def _twice(number):
    return 2 * number


def double_at(address):
    """Double the number at an address: -> the number before."""
    number = load64(address)
    store64(address, _twice(number))
    return number


def add(one, other):
    return one + other


KERNELS = (double_at, add)
