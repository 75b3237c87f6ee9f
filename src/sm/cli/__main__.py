"""`python -m sm.cli` is `sm`."""

from sm.cli import main

main()
