"""`python -m sm.config --example` prints config.yaml.example."""

import sys

from sm.config import example

if sys.argv[1:] != ["--example"]:
    sys.exit("usage: python -m sm.config --example")
sys.stdout.write(example())
