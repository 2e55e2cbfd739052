"""`python -m odradek.broker` still runs the command, which is `python -m odradek` now."""

import runpy

runpy.run_module("odradek", run_name="__main__")
