"""Compile kernels ahead: `python -m odradek.client.spark.compilation [MODULE SOURCE...]`, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from .machine_code import KERNELS, Kernels


def main(arguments: list[str]) -> None:
    """Compile a module of kernels, by default the decoder's, unless it is compiled."""
    wanted = Kernels(arguments[0], tuple(map(Path, arguments[1:]))) if arguments else KERNELS
    wanted.ensure()


if __name__ == "__main__":
    main(sys.argv[1:])
