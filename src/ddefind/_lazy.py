"""Names that are loaded when they are first used, so that `import ddefind` costs
nothing and the command line answers at once."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(
    package: str, table: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package (PEP 562).

    `table` lists the names that each of its modules gives; a module without any is
    given itself.

    >>> getattribute, _, names = lazy_names("ddefind", {"_data": ["Data"]})
    >>> names, getattribute("Data").__name__
    (['Data'], 'Data')
    """
    home = {
        name: module for module, names in table.items() for name in names or [module]
    }

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{home[name]}")
        value = getattr(module, name) if table[home[name]] else module
        setattr(sys.modules[package], name, value)  # found at once the next time
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return __getattr__, __dir__, sorted(home)
