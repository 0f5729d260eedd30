"""``python -m gistbench.runners``: the command line."""

from .cli import main

main()
