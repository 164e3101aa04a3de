"""The rules of the house: which way imports run, how big things get, what every file must say."""

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "throttle"

# From the face down to the core; names beside each other share a floor.
FLOORS = (
    ("cli",),
    ("celery", "beat", "consumer"),
    ("wiring",),
    ("ops",),
    ("dispatch",),
    ("tokens",),
    ("crawl",),
    ("frontier",),
    ("local",),
    ("pace", "robots", "outcome", "retry_after", "traps"),
    ("urls",),
    ("settings",),
    ("model",),
    ("durations",),
    ("errors",),
)
HEIGHT = {name: -floor for floor, names in enumerate(FLOORS) for name in names}
STRANGERS = (("dispatch", "crawl"), ("tokens", "crawl"))

MOST_LINES_OF_A_FILE = 350
MOST_LINES_OF_A_DEFINITION = 150
NO_NAMES = {"util", "utils", "helper", "helpers", "common", "base", "misc"}
LEFT_OPEN = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")

MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = sorted(
    path
    for folder in ("throttle", "tests", "bench", "examples", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)
VERBS = sorted((PACKAGE / "frontier" / "lua").glob("*.lua"))
SCRIPTS = sorted(PACKAGE.rglob("*.lua"))
TEXTS = sorted(
    path
    for path in {
        *SOURCES,
        *SCRIPTS,
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "rabbitmq").rglob("*.*"),
        *(ROOT / "scripts").glob("*.sh"),
        *ROOT.glob("*.md"),
        *ROOT.glob("*.toml"),
        *ROOT.glob("*.yml"),
        ROOT / "Makefile",
        ROOT / ".ci" / "run",
    }
)


def _named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), _named(path))


def _imports(tree: ast.AST) -> Iterator[str]:
    """The modules of throttle that `tree` imports, by full name."""
    known = {_module(path) for path in MODULES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                alias.name for alias in node.names if alias.name.split(".")[0] == "throttle"
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "throttle":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else str(node.module)


IMPORTS = {_module(path): sorted(set(_imports(_tree(path)))) for path in MODULES}
ARROWS = [(module, target) for module, targets in IMPORTS.items() for target in targets]


def _floor(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_module_stands_on_a_floor() -> None:
    """A new module has its place in the order of imports before it is used."""
    assert not [m for m in IMPORTS if m != "throttle" and _floor(m) not in HEIGHT]


def test_imports_never_run_up() -> None:
    """Reading a file needs only the floors beneath it."""
    placed = HEIGHT.keys() | {""}
    arrows = [(m, t) for m, t in ARROWS if m != "throttle" and {_floor(m), _floor(t)} <= placed]
    assert len(arrows) > len(FLOORS)
    assert not [(m, t) for m, t in arrows if t == "throttle"]
    assert not [(m, t) for m, t in arrows if HEIGHT[_floor(t)] > HEIGHT[_floor(m)]]


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Every module can be read, tested and loaded before those that use it."""
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(("one", "other"), STRANGERS)
def test_the_two_sides_of_the_crawl_queue_know_nothing_of_each_other(one: str, other: str) -> None:
    """A worker can be deployed without the dispatcher and the issuer, and they without it."""
    assert not [(m, t) for m, t in ARROWS if {_floor(m), _floor(t)} == {one, other}]


def test_imports_stand_at_the_top_where_they_can_be_seen() -> None:
    """No import hides in a function or under TYPE_CHECKING to get round the floors."""
    hidden = []
    for path in MODULES:
        tree = _tree(path)
        at_top = {name for node in tree.body for name in _imports(ast.Module([node], []))}
        inside = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
        hidden += [(_named(path), name) for name in _imports(ast.Module(inside, []))]
        assert at_top >= set(_imports(tree))
        if "TYPE_CHECKING" in path.read_text(encoding="utf-8"):
            hidden.append((_named(path), "TYPE_CHECKING"))
    assert not hidden


def test_an_init_file_holds_a_docstring_only() -> None:
    """A name is imported from the file that defines it; only the top package may show a face."""
    for path in MODULES:
        if path.name != "__init__.py":
            continue
        rest = _tree(path).body[1:]
        if path.parent == PACKAGE:
            rest = [node for node in rest if not _is_face(node)]
        assert not rest, f"{_named(path)} holds more than a docstring"


def _is_face(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets] == ["__all__"]
    return isinstance(node, ast.ImportFrom)


def test_every_file_begins_with_its_one_duty() -> None:
    """The first line of a file is a docstring, and it is a sentence."""
    for path in SOURCES:
        tree = _tree(path)
        first_line = (ast.get_docstring(tree) or "").partition("\n")[0]
        assert len(first_line) >= 20, f"{_named(path)} does not say its duty"
        assert tree.body[0].lineno == 1, f"{_named(path)} begins with something else"


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    """A file past the limit asks to be two ideas."""
    sizes = {_named(p): len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES + SCRIPTS}
    assert not {name: size for name, size in sizes.items() if size > MOST_LINES_OF_A_FILE}


def test_no_definition_is_longer_than_a_reader_can_hold() -> None:
    """Functions and classes stay short enough to be read in one go."""
    sizes = {
        f"{_named(path)}: {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert sizes
    assert not {name: size for name, size in sizes.items() if size > MOST_LINES_OF_A_DEFINITION}


def test_nothing_is_left_open_in_a_comment() -> None:
    """What is to be done stands in an issue, not in the code."""
    open_ends = [
        f"{_named(path)}:{number}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFT_OPEN.search(line)
    ]
    assert not open_ends


def test_names_say_what_is_inside() -> None:
    """No file or folder is a drawer for everything."""
    assert not [
        _named(p)
        for p in SOURCES + SCRIPTS
        if NO_NAMES & set(p.relative_to(ROOT).with_suffix("").parts)
    ]


def test_the_scripts_of_the_frontier_are_found() -> None:
    """The two tests below look at real files."""
    assert VERBS
    assert len(SCRIPTS) > len(VERBS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_begins_with_its_purpose_and_its_interface(path: Path) -> None:
    """A reader of a Lua file learns from its head what it does, takes and answers."""
    head = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("--") or line.startswith("--@"):
            break
        head.append(line.removeprefix("--").strip())
    assert head, f"{_named(path)} has no head comment"
    assert len(head[0]) >= 20, f"{_named(path)} does not begin with its purpose"
    if path in VERBS:
        text = "\n".join(head)
        missing = [
            w for w in ("KEYS", "ARGV", "Repl") if not re.search(rf"^{w}", text, re.MULTILINE)
        ]
        assert not missing, f"the head of {_named(path)} does not tell {missing}"


def test_the_built_wheel_holds_every_module_and_script(tmp_path: Path) -> None:
    """An installed throttle finds its Lua files, as a checkout does."""
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*build, "--no-index", "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("throttle-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {_named(path) for path in MODULES + SCRIPTS} | {"throttle/py.typed"}
    assert not wanted - held
    assert not {name for name in held if not name.startswith("throttle")}
