"""Has Ray's workers come to the moments of a matrix."""

import sys

if any(each.endswith("default_worker.py") for each in sys.orig_argv):
    from tests.ray.matrix.moments import install

    install()
