"""Has Arrow not look for pandas in Ray's workers: loading it is a third of what an actor's start
takes, and no actor needs it."""

import sys
import warnings
from types import ModuleType

sys.modules["pandas"] = too_old = ModuleType("pandas")
too_old.__dict__["__version__"] = "0"
try:
    import pyarrow as pa

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pa.array([])  # it looks once; `to_pandas` does so anew
finally:
    del sys.modules["pandas"]
