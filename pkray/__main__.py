"""``python -m pkray``: the command line."""

from pkray.cli import main

main()
