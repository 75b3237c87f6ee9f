"""A real daemon that builds the image of sandboxes from a short Dockerfile: that in SM_TEST_DOCKERFILE."""

import os
import sys

from sm.daemon import main as daemon
from sm.sandboxes.docker import build, image

if __name__ == "__main__":
    vars(build)["_DOCKERFILES"] = (os.environ["SM_TEST_DOCKERFILE"],)
    # The engine warns about arguments that the Dockerfile does not declare.
    vars(image)["build_arguments"] = lambda *_: {}
    sys.exit(daemon.main())
