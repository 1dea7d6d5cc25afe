"""Arguments of public calls are checked by their annotations, and of none is it forgotten."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest

import pkray
from pkray.arguments.checks import Give
from pkray.arguments.facade import ColumnNames, Settings, Warehouse, checked, checked_class
from pkray.errors import InputError, OptionError, PkrayError, TableError
from pkray.schema.table_schema import TableSchema
from pkray.service.client.dynamic_client import AssignerClient, KeyClient
from pkray.service.client.push_session import PushTarget, SpoolTarget
from pkray.service.client.pusher import Pusher
from pkray.service.protocol import PushReport
from pkray.service.runtime import Runtime
from pkray.storage.location import TableLocation


@checked
def take(
    text: str | None = None,
    number: int | None = None,
    share: float | None = None,
    flag: bool = False,
    names: ColumnNames | None = None,
    numbers: Sequence[int] = (),
    named: Mapping[str, str] | None = None,
    pairs: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    word: Literal["a", "b"] = "a",
    where: Warehouse = "",
    either: int | str | None = None,
    call: Callable[[int], None] | None = None,
    settings: Settings | None = None,
    anything: object = None,
    place: Annotated[str, Give("a name", TableError, longest=3)] = "",
) -> dict[str, Any]:
    return dict(locals())


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"number": np.int64(3)}, 3),
        ({"share": np.float32(0.5)}, 0.5),
        ({"share": 2}, 2.0),
        ({"flag": np.bool_(True)}, True),
        ({"text": np.str_("x")}, "x"),
        ({"text": "naïve €"}, "naïve €"),
        ({"names": pd.Index(["a", "b"])}, ["a", "b"]),
        ({"names": np.array(["a"])}, ["a"]),
        ({"names": ("a", "b")}, ("a", "b")),
        ({"names": []}, []),
        ({"numbers": range(2)}, [0, 1]),
        ({"pairs": [["a", "b"]]}, [("a", "b")]),
        ({"pairs": {"a": "b"}}, {"a": "b"}),
        ({"where": Path("x")}, Path("x")),
        ({"either": "x"}, "x"),
        ({"call": print}, print),
    ],
)
def test_what_stands_for_a_value_is_taken_as_it(given, taken):
    ((name, _),) = given.items()
    found = take(**given)[name]
    assert (found, type(found)) == (taken, type(taken))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": 5}, "text cannot be 5: give text, such as '5'"),
        ({"text": b"x"}, "text cannot be a bytes: give text"),
        ({"text": "a\0b"}, r"text cannot be 'a\\x00b': give text without NUL characters"),
        ({"text": "\ud800"}, r"text cannot be '\\ud800': give text that UTF-8 can hold"),
        ({"number": True}, "number cannot be True: give a whole number, an int"),
        ({"number": 1.0}, "number cannot be 1.0: give a whole number"),
        ({"number": 2**70}, "number cannot be a number of 71 bits: give a whole number of 64"),
        ({"number": np.array([1, 2])}, "number cannot be a ndarray: give a whole number"),
        ({"share": float("nan")}, "share cannot be nan: give a finite number"),
        ({"flag": 1}, "flag cannot be 1: give True or False"),
        ({"flag": "false"}, "flag cannot be 'false': give True or False"),
        ({"numbers": [0, []]}, r"numbers\[1\] cannot be a list: give a whole number"),
        ({"numbers": {"a": 1}}, "numbers cannot be a dict: give a list of whole numbers"),
        ({"named": {5: "x"}}, "named's key cannot be 5: give text"),
        ({"named": {"x": 5}}, r"named\['x'\] cannot be 5: give text, such as '5'"),
        ({"pairs": ["ab"]}, r"pairs\[0\] cannot be 'ab': give \(text, text\)"),
        ({"pairs": 5}, r"pairs cannot be 5: give a mapping or a list of \(text, text\)"),
        ({"word": "c"}, "word cannot be 'c': give one of 'a', 'b'"),
        ({"word": []}, "word cannot be a list: give one of 'a', 'b'"),
        ({"either": 1.5}, "either cannot be 1.5: give a whole number or text"),
        ({"either": "\0"}, "give text without NUL"),
        ({"call": 5}, "call cannot be 5: give a function"),
        ({"where": None}, "where cannot be None: give a folder, or an object store's URL"),
        ({"text": "x" * 1000 + "\0"}, f"text cannot be '{'x' * 60}…': give"),
    ],
)
def test_what_is_refused_is_named_with_what_to_give(given, message):
    with pytest.raises(OptionError, match=message) as caught:
        take(**given)
    assert caught.value.arguments == tuple(given)
    assert caught.value.__cause__ is None


def test_an_annotation_says_what_to_give_and_what_is_raised():
    with pytest.raises(InputError, match=r"names cannot be 'id': give a list, such as \['id'\]"):
        take(names="id")
    with pytest.raises(TableError, match="place cannot be 'abcd': give a name, of at most 3"):
        take(place="abcd")
    with pytest.raises(TableError, match="place cannot be 5: give a name"):
        take(place=5)


@pytest.mark.parametrize(
    "given",
    [
        {"where": b"s3://KEY:hush@bucket"},
        {"where": "s3://KEY:hush@bucket\0"},
        {"where": ["hush"]},
        {"settings": "key=hush"},
        {"settings": {5: "hush"}},
        {"text": "s3://KEY:hush@bucket/\0"},
        {"named": {"secret": b"hush"}},
    ],
)
def test_a_message_holds_no_secret(given):
    with pytest.raises(OptionError) as caught:
        take(**given)
    assert "hush" not in str(caught.value)


def test_what_an_object_prints_is_not_in_the_message():
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("not to be asked")

    with pytest.raises(OptionError, match="text cannot be a Loud"):
        take(text=Loud())


def test_missing_and_unknown_arguments_are_pythons_errors():
    @checked
    def one(value: int) -> None: ...

    for call in (one, lambda: one(1, 2), lambda: one(value=1, more=2)):
        with pytest.raises(TypeError):
            call()


def test_arguments_nested_too_deeply_are_refused():
    @checked
    def deep(value: object) -> object:
        return deep(value)

    with pytest.raises(InputError, match="nested too deeply"):
        deep([])


def test_what_is_worked_on_may_be_nested_too_deeply_without_any_argument():
    @checked
    def deep() -> object:
        return deep()

    with pytest.raises(InputError, match="what it works on is nested too deeply"):
        deep()


def test_static_and_class_methods_are_checked_and_private_ones_are_not():
    @checked_class
    class Held:
        @staticmethod
        def still(value: int) -> int:
            return value

        @classmethod
        def of(cls, value: int) -> tuple[type, int]:
            return cls, value

        def _inner(self, value: int) -> int:
            return value

    assert (Held.still(1), Held.of(1), Held()._inner("x")) == (1, (Held, 1), "x")
    for call in (Held.still, Held.of):
        with pytest.raises(OptionError):
            call("x")


INSIDE = (TableSchema, TableLocation, PushTarget, PushReport, AssignerClient, KeyClient, Runtime)
"""Within reach of users, and for pkray alone."""


def public_classes() -> list[type]:
    """Those of `pkray.__all__`, and whatever their methods and properties return."""
    found: list[type] = []
    waiting: list[Any] = [getattr(pkray, name) for name in pkray.__all__] + [Pusher, SpoolTarget]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if not inspect.isclass(kind) or not kind.__module__.startswith("pkray.") or kind in found:
            continue
        if kind in INSIDE or issubclass(kind, PkrayError):
            continue
        found.append(kind)
        waiting += list(kind.__mro__)
        for name, member in inspect.getmembers(kind):
            function = member.fget if isinstance(member, property) else member
            if not name.startswith("_") and inspect.isroutine(function):
                waiting.append(_hints(function).get("return"))
    return found


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except (NameError, TypeError):
        return {}


def takes_arguments(function: Any) -> bool:
    return bool(set(inspect.signature(function).parameters) - {"self", "cls"})


def unchecked() -> Iterator[str]:
    """Public methods with arguments that nothing checks."""
    for kind in public_classes():
        for name, member in vars(kind).items():
            function = getattr(member, "__func__", member)
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if takes_arguments(function) and not hasattr(function, "is_checked"):
                yield f"{kind.__name__}.{name}"
    for module in (pkray, pkray.spark):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and not hasattr(function, "is_checked"):
                yield f"{module.__name__}.{name}"


INTERNAL = {
    "Snapshot.is_same",
    "Tag.has_expired",
    "DataType.with_nullable",
    "IngestQuery.awaitTermination",
}
"""What pkray calls, or Spark checks."""


def test_no_public_call_is_forgotten():
    names = {kind.__name__ for kind in public_classes()}
    assert names >= {
        "Alter", "Branches", "Catalog", "ChangeStream", "Consumers", "PushSession",
        "Pusher", "ScanReport", "SnapshotView", "Split", "SpoolTarget",
        "SystemTable", "Table", "TableWriter", "Tags",
    }  # fmt: skip
    assert set(unchecked()) - INTERNAL == set()
