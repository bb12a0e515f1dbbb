"""The package's own rules: imports go one way, classes are abstract or final, `import
ddefind` stays light."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ddefind

SOURCE = Path(ddefind.__file__).parent
HEAVY = ("matplotlib", "scipy.interpolate", "scipy.stats", "torch", "rich", "optax")
HEAVY += ("pandas", "numpyro", "arviz")
MODULES = sorted(path.stem for path in SOURCE.glob("*.py"))
# A module may import those before it only.
ORDER = """
_version _config _lazy _errors _files _store _options _request _startup _expression
_text _translate _lines _latex _arrays _cells _dates _table _times _columns _csv _frame
_data _read _hermite _rows _network _cost _optimizer _progress _solver _history _problem
models _spline _engine _reverse _layout _prior _parameters _program _template _equation
_structure _forcing _solve _loss _gradient _adjoint _published _check _descent _blocks
_aten _aten_sums _aten_shapes _torch_program _delay_ode _pytorch _torch_trial
_torch_check _torch_export _from_torch _contents plots _result _sensitivity _levenberg
_least_squares _smooth _matching _setting _refine _preference _starts _search _profile
_uncertainty
_verdict _aligned _observed _propagate _bootstrap _sample _predict _derived _roots
_stability _checks _criteria _cautions _summary _estimate _load _job _fit_descent
_fit_squares _fit __init__ torch _source _simulate _output _cli _cli_options _cli_fit
_cli_simulate demo experiments _record paper paper_output __main__
""".split()


def statements(tree):
    """Every node of a file, but for what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from statements(node)


def relative_imports(path: Path) -> set[str]:
    """The package's modules that a file imports, wherever in the file."""
    found = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names = [node.module] if node.module else [a.name for a in node.names]
            found |= {name.split(".")[0] for name in names}
        elif isinstance(node, ast.Import):
            # As a user does: after everything that `__init__` imports.
            whole = (a.name.split(".")[0] == "ddefind" for a in node.names)
            found |= {"__init__"} if any(whole) else set()
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.module.split(".")[0] != "ddefind", path
    return found


def test_every_module_has_its_place():
    assert not set(MODULES) - set(ORDER)


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_only_earlier_ones(module):
    before = set(ORDER[: ORDER.index(module)])
    assert relative_imports(SOURCE / f"{module}.py") <= before


def test_the_package_itself_only_gives_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    defined = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.Try)
    assert not [node for node in ast.walk(tree) if isinstance(node, defined)]
    (branch,) = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    assert ast.unparse(branch.test) == "TYPE_CHECKING"
    assert all(isinstance(node, ast.ImportFrom) for node in branch.body)


def test_type_checkers_and_python_see_the_same_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.asname: node.module or alias.name
        for node in branch.body
        for alias in node.names
    }
    assert sorted(imported) == ddefind.__all__
    assert set(imported) <= set(dir(ddefind))
    for name, module in imported.items():
        found = getattr(ddefind, name)
        home = importlib.import_module(f"ddefind.{module}")
        assert found is (home if name == module else getattr(home, name))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = ddefind.fitt
    with pytest.raises(ImportError):
        from ddefind import fitt  # noqa: F401


def classes():
    for name in MODULES:
        if name.startswith("__"):
            continue
        module = importlib.import_module(f"ddefind.{name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == module.__name__:
                yield cls


def is_named_tuple(cls):
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


@pytest.mark.parametrize("cls", list(classes()), ids=lambda cls: cls.__qualname__)
def test_every_class_is_abstract_or_final(cls):
    abstract = cls.__name__.lstrip("_").startswith("Abstract")
    final = vars(cls).get("__final__", False)
    if is_named_tuple(cls):
        assert not abstract
    else:
        assert abstract != final


@pytest.mark.parametrize("cls", list(classes()), ids=lambda cls: cls.__qualname__)
def test_only_abstract_classes_are_inherited_from(cls):
    for base in cls.__bases__:
        if base.__module__.startswith("ddefind"):
            assert base.__name__.lstrip("_").startswith("Abstract")


@pytest.mark.parametrize("module", MODULES)
def test_files_are_short(module):
    assert len((SOURCE / f"{module}.py").read_text().splitlines()) <= 400


def loaded_by(code):
    """The modules that are loaded after some code, in a process of its own."""
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_is_light():
    loaded = loaded_by("import ddefind")
    assert "ddefind" in loaded
    assert not loaded & {*HEAVY, "jax", "numpy"}


def test_names_are_loaded_when_they_are_used():
    loaded = loaded_by("import ddefind as dd; dd.fit; dd.equation; dd.read_csv")
    assert {"jax", "ddefind._fit"} <= loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("before", ["import ddefind, jax", "import jax, ddefind"])
def test_importing_the_package_decides_the_precision(before):
    """Before any of its names is used, and whichever is imported first."""
    code = f"{before}; assert jax.numpy.ones(1).dtype == 'float64'"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
