"""Lets `python -m odradek.broker` run the command line, as `python -m odradek` does."""

from __future__ import annotations

import runpy

runpy.run_module("odradek", run_name="__main__")
