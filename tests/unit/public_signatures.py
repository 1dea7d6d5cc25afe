"""What users import, and how it is called: ``python -m tests.unit.public_signatures`` writes it."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pkray
import pkray.ray_data
import pkray.relational
import pkray.relational.udf
import pkray.spark

STORED = Path(__file__).parent / "data/public_signatures.json"


def places() -> Iterator[tuple[str, Any]]:
    """Yield what users import, by the place where they do."""
    for module in (pkray, pkray.relational):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)
    for module in (pkray.ray_data, pkray.spark):
        for name in dir(module):
            if not name.startswith("_"):
                yield f"{module.__name__}.{name}", getattr(module, name)
    yield "pkray.relational.udf.udf", pkray.relational.udf.udf


def signatures() -> dict[str, str]:
    """Write down the parameters of functions, and those of the methods of classes."""
    found: dict[str, str] = {}
    for place, value in places():
        if inspect.isclass(value) and not issubclass(value, BaseException):
            for name in dir(value):
                if not name.startswith("_"):
                    found[f"{place}.{name}"] = parameters(inspect.getattr_static(value, name))
            found[place] = parameters(value)
        else:
            found[place] = parameters(value)
    return dict(sorted(found.items()))


def parameters(value: Any) -> str:
    """Write parameters without their annotations, whose names may move."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if not callable(value):
        return ""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.Signature(bare)))


if __name__ == "__main__":
    STORED.write_text(json.dumps(signatures(), indent=1) + "\n")
