"""Runs the daemon: `python -m sm.daemon`."""

import sys

from sm.daemon.main import main

sys.exit(main())
