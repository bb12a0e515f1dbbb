"""The package's architecture, read from its folders.

Each folder, and each public module beside them, says in its docstring what lives there
and what it may import: the last paragraph is `May import: ...`, which a test compares
with the imports."""

import ast
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ddefind"
_IMPORTS = "May import: "
# The folders that use the package as a user does, by `import ddefind`.
_USERS = (("_cli",), ("_discovery",), ("paper",), ("torch",))


@dataclass(frozen=True)
class Part:
    """A folder or a public module: its title, and the parts that it may import."""

    name: str
    title: str
    imports: frozenset[str]
    files: tuple[Path, ...]


def _read(path: Path) -> Part:
    home = path / "__init__.py" if path.is_dir() else path
    text = ast.get_docstring(ast.parse(home.read_text())) or ""
    *paragraphs, last = text.split("\n\n")
    assert last.startswith(_IMPORTS), f"{home} does not say what it may import"
    listed = last.removeprefix(_IMPORTS).rstrip(".").replace("\n", " ")
    names = [] if listed == "nothing" else listed.split(", ")
    assert all(name[0] == name[-1] == "`" for name in names), f"{home}: {last}"
    files = tuple(sorted(path.glob("*.py"))) if path.is_dir() else (path,)
    title = " ".join(paragraphs[0].splitlines())
    return Part(path.stem, title, frozenset(n.strip("`") for n in names), files)


def parts() -> dict[str, Part]:
    """Every part by its name, in an order in which imports only point back."""
    paths = [path for path in SOURCE.iterdir() if (path / "__init__.py").is_file()]
    paths += [path for path in SOURCE.glob("*.py") if not path.stem.startswith("__")]
    found = {part.name: part for part in map(_read, paths)}
    unknown = {name for part in found.values() for name in part.imports} - set(found)
    assert not unknown, f"There are no such parts: {unknown}"
    sorter = TopologicalSorter(
        {name: sorted(found[name].imports) for name in sorted(found)}
    )
    return {name: found[name] for name in sorter.static_order()}


def _statements(tree: ast.AST):
    """Every node of a file, but for what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _statements(node)


def imported_modules(path: Path) -> set[str]:
    """The package's modules that a file imports, anywhere in it, as `_engine.solve`."""
    package = path.relative_to(SOURCE).parts[:-1]
    found = set()
    for node in _statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            whole = any(alias.name.split(".")[0] == "ddefind" for alias in node.names)
            assert not whole or package in _USERS, path
        if not isinstance(node, ast.ImportFrom):
            continue
        if not node.level:
            assert (node.module or "").split(".")[0] != "ddefind", path
            continue
        base = package[: len(package) + 1 - node.level]
        base += tuple(node.module.split(".")) if node.module else ()
        for alias in node.names:
            inner = SOURCE.joinpath(*base, f"{alias.name}.py")
            module = (*base, alias.name) if inner.is_file() else base
            found.add(".".join(module) or alias.name)
    return found
