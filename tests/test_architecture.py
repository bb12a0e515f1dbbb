"""The package's own rules: imports go one way, classes are abstract or final, `import
ddefind` stays light."""

import ast
import importlib
import inspect
from graphlib import TopologicalSorter
from pathlib import Path
from typing import is_typeddict

import pytest

import ddefind
from support.architecture import ROOT, SOURCE, imported_modules, parts
from support.command import python
from support.passed_files import USES

HEAVY = ("matplotlib", "scipy.interpolate", "scipy.stats", "torch", "rich", "optax")
HEAVY += ("pandas", "numpyro", "arviz")
# What was reached. A limit may fall; it rises only for a reason that was measured and
# is said in the commit.
MOST_FILES, LONGEST_CHAIN = 234, 25
MOST_PASSED = {"read_csv": 7, "fit": 62, "fit --out": 102}
# The folders that use the package, and how many names they import that are not public.
SATELLITES = "_cli", "_discovery", "_sweeps", "paper", "torch"
MOST_PRIVATE_NAMES = 110
PARTS = parts()
FILES = sorted(SOURCE.rglob("*.py"))


def module_name(path: Path) -> str:
    """A file as it is imported, such as `_engine.solve`."""
    names = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


@pytest.mark.parametrize("name", PARTS)
def test_folders_import_what_they_say_and_no_more(name):
    part = PARTS[name]
    found = {m.split(".")[0] for file in part.files for m in imported_modules(file)}
    assert found - {name} <= part.imports <= found


def test_files_import_in_one_direction():
    """A circle of files is a `CycleError`. There are not more of them."""
    graph = {module_name(file): imported_modules(file) for file in FILES}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(FILES)
    assert len(FILES) <= MOST_FILES


# The kinds of engines, of their grids and steps, and of solvers; and names by which one
# could ask for them.
ENGINE_KINDS = {"AlignedEngine", "MeshEngine", "AdaptiveEngine", "Grid", "Mesh"}
ENGINE_KINDS |= {"AdaptiveRoom", "AdaptiveSteps", "Extended", "MeshSensitivity"}
ENGINE_KINDS |= {"AdaptiveSensitivity", "AbstractSolver", "AbstractAdaptive"}
ENGINE_KINDS |= {"AbstractExplicit", "Euler", "RK2", "RK4", "Tsit5", "DOP853", "Radau"}
ENGINE_MARKS = {"chooses_steps", "is_adaptive", "is_mesh", "needs_mesh", "is_implicit"}


def questions_of_engines(path: Path) -> list[str]:
    """Where a file asks which engine it has: by type, attribute, `match` or name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                asked = [node.args[1]]
            elif node.func.id in ("hasattr", "getattr"):
                found += ["attribute"] * ("solver" in ast.unparse(node.args[0]))
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.Compare):
            asked = list(node.comparators)
        elif isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            found += [name] * (name in ENGINE_MARKS)
        for each in (inner for tree in asked for inner in ast.walk(tree)):
            names = {ast.unparse(each).rpartition(".")[2], getattr(each, "value", "")}
            found += [ast.unparse(node)] * (not names.isdisjoint(ENGINE_KINDS))
    return [f"{path.name}: {each}" for each in found]


def test_nobody_asks_which_engine_it_has():
    """Outside of the folder that knows: `choose.py` asks once."""
    others = [path for path in FILES if SOURCE / "_engine" not in path.parents]
    assert [each for path in others for each in questions_of_engines(path)] == []


def longest_chain() -> list[str]:
    """The longest way from file to file by imports, the importing one first."""
    graph = {module_name(file): imported_modules(file) for file in FILES}
    chains: dict[str, list[str]] = {}
    for name in TopologicalSorter(graph).static_order():
        after = [chains[each] for each in graph.get(name, ()) if each != name]
        chains[name] = [name, *max(after, key=len, default=[])]
    return max(chains.values(), key=len)


def test_the_longest_chain_of_imports():
    chain = longest_chain()
    assert len(chain) <= LONGEST_CHAIN, " > ".join(chain)


def private_names(folder: str) -> set[tuple[str, str]]:
    """The names that a folder imports from others, by their modules."""
    found = set()
    for path in PARTS[folder].files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level > 1 and node.module:
                found |= {(node.module, alias.name) for alias in node.names}
    return {(module, name) for module, name in found if not module.startswith("_util")}


def test_satellites_import_few_names():
    """The folders that use the package do so by its public names; of others they share
    ever fewer. What serves all folders does not count."""
    names = set().union(*map(private_names, SATELLITES))
    assert len(names) <= MOST_PRIVATE_NAMES


@pytest.mark.parametrize("use", USES)
def test_one_use_passes_few_files(use):
    """In a process of its own, since it watches every call of a function."""
    done = python("-m", "tests.support.passed_files", use, folder=ROOT)
    passed = [line for line in done.stdout.splitlines() if line.endswith(".py")]
    assert 0 < len(passed) <= MOST_PASSED[use]


def test_each_class_has_a_name_of_its_own():
    homes: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(module_name(path))
    assert not {name for name, files in homes.items() if len(files) > 1}


def test_few_entries_of_the_package_are_public():
    entries = {path.stem for path in SOURCE.iterdir()} - {"__pycache__"}
    public = {name for name in entries if not name.startswith("_")} - {"py"}
    assert public == {"datasets", "models", "noise", "paper", "plots", "torch"}


@pytest.mark.parametrize("name", [n for n in PARTS if (SOURCE / n).is_dir()])
def test_a_folder_begins_with_a_docstring_and_public_names_only(name):
    """Private folders give no names; public ones those of their `__init__.pyi`."""
    tree = ast.parse((SOURCE / name / "__init__.py").read_text())
    lines = [ast.unparse(node) for node in tree.body[1:]]
    stub = "_lazy_loader.attach_stub(__name__, __file__)"
    lazily = [
        "import lazy_loader as _lazy_loader",
        f"__getattr__, __dir__, __all__ = {stub}",
    ]
    assert lines == ([] if name.startswith("_") else lazily)


@pytest.mark.parametrize(
    "package", ["ddefind", "ddefind.torch", "ddefind.paper", "ddefind.datasets"]
)
def test_type_checkers_and_python_see_the_same_names(package):
    module = importlib.import_module(package)
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = sorted(alias.name for node in imports for alias in node.names)
    assert names == sorted(module.__all__)
    assert set(names) <= set(dir(module))
    for node in imports:
        for alias in node.names:
            assert alias.asname == alias.name
            found = getattr(module, alias.name)
            home = importlib.import_module(
                f"{package}.{node.module or alias.name}".rstrip(".")
            )
            assert found is (home if node.module is None else getattr(home, alias.name))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="attribute fitt"):
        _ = getattr(ddefind, "fitt")  # noqa: B009
    with pytest.raises(ImportError):
        exec("from ddefind import fitt")


def classes():
    for path in FILES:
        if path.stem == "__main__":
            continue
        module = importlib.import_module(f"ddefind.{module_name(path)}".rstrip("."))
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == module.__name__:
                yield cls


@pytest.mark.parametrize("cls", list(classes()), ids=lambda cls: cls.__qualname__)
def test_every_class_is_abstract_or_final(cls):
    abstract = cls.__name__.lstrip("_").startswith("Abstract")
    final = vars(cls).get("__final__", False)
    # No decorator makes named tuples and typed dictionaries final.
    if hasattr(cls, "_fields") or is_typeddict(cls):
        assert not abstract
    else:
        assert abstract != final


@pytest.mark.parametrize("cls", list(classes()), ids=lambda cls: cls.__qualname__)
def test_only_abstract_classes_are_inherited_from(cls):
    for base in cls.__bases__:
        if base.__module__.startswith("ddefind"):
            assert base.__name__.lstrip("_").startswith("Abstract")


def loaded_by(code):
    """The modules that are loaded after some code, in a process of its own."""
    return set(python("-c", f"{code}; import sys; print(*sys.modules)").stdout.split())


def test_import_is_light():
    loaded = loaded_by("import ddefind")
    assert "ddefind" in loaded
    assert not loaded & {*HEAVY, "jax", "numpy"}


def test_names_are_loaded_when_they_are_used():
    loaded = loaded_by("import ddefind as dd; dd.fit; dd.equation; dd.read_csv")
    assert {"jax", "ddefind._fitting.fit"} <= loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("before", ["import ddefind, jax", "import jax, ddefind"])
def test_importing_the_package_decides_the_precision(before):
    """Before any of its names is used, and whichever is imported first."""
    code = f"{before}; assert jax.numpy.ones(1).dtype == 'float64'"
    python("-c", code, unset=["JAX_ENABLE_X64"])


# The kinds of misfit, system and study, each with the folders that own it; what else
# would tell them apart; and what only their folder asks of them.
OWNERS = {"Squares": "_search", "Likelihood": "_search", "OneExperiment": "_search"}
OWNERS |= {"Experiments": "_search", "Undisturbed": "_inference", "StudyData": "_data"}
OWNERS |= {"Disturbed": "_inference", "ProcessNoise": "_shooting"}
OWNERS |= {"Given": "noise _search"}
TELLING = {"likelihood", "process", "joint", "study"}
OWN_MATTER = {"is_robust": "_search", "stores_rows": "_search"}
OWN_MATTER |= {"weights_are_absolute": "_search"}


def last_name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def questions(path: Path) -> list[str]:
    """What a file asks about the kind of a misfit, a system or a study that another
    folder owns: by class, by None, by the name of an attribute."""
    folder, found = path.relative_to(SOURCE).parts[0], []
    for node in ast.walk(ast.parse(path.read_text())):
        names: set[str] = set()
        match node:
            case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, kinds]):
                names = {last_name(each) for each in ast.walk(kinds)} & set(OWNERS)
            case ast.MatchClass(cls=kind):
                names = {last_name(kind)} & set(OWNERS)
            case ast.Call(func=ast.Name("getattr" | "hasattr"), args=[_, name, *_]):
                names = {getattr(name, "value", "")} & {*TELLING, "experiments"}
            case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[other]):
                if getattr(other, "value", "") is None:
                    names = {last_name(node.left)} & TELLING
            case ast.Attribute(attr=name):
                names = {name} & set(OWN_MATTER)
        homes = OWNERS | OWN_MATTER | dict.fromkeys(TELLING, "_inference")
        if any(folder not in homes.get(name, "").split() for name in names):
            found.append(f"{path.name}: {ast.unparse(node)}")
    return found


def test_nobody_asks_which_misfit_system_or_study_a_fit_has():
    assert [each for path in FILES for each in questions(path)] == []
