"""Docstrings and names keep to the house style."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pkray

ROOT = Path(pkray.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef

NO_VERBS = re.compile(
    "(After|All|Alone|Also|An?|Another|Any|As|At|Before|Both|By|Dense|Each|Every|For|From|How|If|In|"
    "Its?|No|Nobody|None|Not|Nothing|Of|On|One|Only|Others?|So|Some|That|The|Their|There|These|They|"
    "This|Those|To|Until|What|When|Where|Which|While|Who|Whole|Why|With|Without)"
)
QUESTIONS = re.compile(r"(What|How|Which|Where|When|Who|Why)\b")
VERBS_IN_S = re.compile("Access|Compress|Cross|Discuss|Focus|Guess|Pass|Press|Process")
OLD_NAMES = re.compile(
    r"(^|_)(alarm|doomed|follower|forestall(ed)?|give_?up|handed_over|homes|lay_on|leftovers"
    r"|meant|outrun|refuse_(changed|fenced|misrouted|old|others|waiting)|spend|take_back|upkeep"
    r"|what_writers)(_|$)"
)
"""Words that the glossary of CONTRIBUTING has others for."""


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


def definitions(
    tree: ast.AST, owner: tuple[ast.ClassDef, ...] = ()
) -> Iterator[tuple[tuple[ast.ClassDef, ...], ast.ClassDef | Function]]:
    """Each public class and function, with the classes that it is in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
            yield owner, node
            if isinstance(node, ast.ClassDef):
                yield from definitions(node, (*owner, node))


def public() -> Iterator[tuple[str, tuple[ast.ClassDef, ...], ast.ClassDef | Function]]:
    for path, tree in modules().items():
        for owner, node in definitions(tree):
            name = ".".join([each.name for each in owner] + [node.name])
            yield f"{path}: {name}", owner, node


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]


def describes(owner: ast.ClassDef, name: str) -> bool:
    methods = [node for node in owner.body if isinstance(node, Function)]
    return any(node.name == name and ast.get_docstring(node) for node in methods)


def is_said_above(name: str, owner: ast.ClassDef, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a class above has the method with a docstring, or is of another package."""
    for base in set(bases(owner)) - seen - {"Protocol", "Generic", "ABC", "Enum"}:
        above = classes().get(base, [])
        if not above or any(
            describes(each, name) or is_said_above(name, each, seen | {base}) for each in above
        ):
            return True
    return False


def protocols() -> dict[str, list[ast.ClassDef]]:
    """By module, what its classes are alike in without inheriting it."""
    return {
        path: [n for n in tree.body if isinstance(n, ast.ClassDef) and "Protocol" in bases(n)]
        for path, tree in modules().items()
    }


def decorators(node: Function) -> str:
    return " ".join(ast.unparse(each) for each in node.decorator_list)


def says_itself(node: Function) -> bool:
    """Whether the name and a single expression say all."""
    return len(node.body) == 1 and isinstance(node.body[0], ast.Return | ast.Expr | ast.Raise)


def begins_with_a_verb(text: str) -> bool:
    word = re.match(r"[A-Za-z-]*", text.strip()).group()  # type: ignore[union-attr]
    is_plural = word.endswith("s") and not VERBS_IN_S.fullmatch(word)
    return word[:1].isupper() and not NO_VERBS.fullmatch(word) and not is_plural


def test_public_classes_and_functions_have_docstrings():
    alike = protocols()

    def needs_one(
        where: str, owner: tuple[ast.ClassDef, ...], node: ast.ClassDef | Function
    ) -> bool:
        if isinstance(node, ast.ClassDef):
            return not owner
        if says_itself(node) or "property" in decorators(node):
            return False
        like = alike[where.partition(":")[0]]
        said = owner and is_said_above(node.name, owner[-1])
        return not said and not any(describes(each, node.name) for each in like if owner)

    silent = [
        where
        for where, owner, node in public()
        if ast.get_docstring(node) is None and needs_one(where, owner, node)
    ]
    assert silent == []


def test_docstrings_of_functions_begin_with_a_verb():
    others = [
        f"{where}: {text.splitlines()[0]}"
        for where, _, node in public()
        if isinstance(node, Function)
        and "property" not in decorators(node)
        and (text := ast.get_docstring(node))
        and not begins_with_a_verb(text)
    ]
    assert others == []


def test_docstrings_say_what_is_done_instead_of_asking():
    asking = [
        f"{path}: {text.splitlines()[0]}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | Function)
        and (text := ast.get_docstring(node))
        and QUESTIONS.match(text)
    ]
    assert asking == []


def names() -> Iterator[tuple[str, str]]:
    """Whatever the package gives a name: modules, classes, functions, arguments, attributes."""
    for path, tree in modules().items():
        yield path, Path(path).stem
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | Function):
                yield path, node.name
            elif isinstance(node, ast.arg):
                yield path, node.arg
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield path, node.attr
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield path, node.id


def test_names_are_of_the_glossary():
    found = {
        f"{path}: {name}"
        for path, name in names()
        if OLD_NAMES.search(re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower().lstrip("_"))
    }
    assert found == set()


def test_constructors_say_what_they_take():
    found = [
        where
        for where, _, node in public()
        if isinstance(node, Function) and node.name == "of" and "classmethod" in decorators(node)
    ]
    assert found == []
