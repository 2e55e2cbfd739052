"""`python -m odradek.broker` is the command `odradek`."""

from .cli import main

main(prog_name="odradek")
