"""The version of the package: the one place where it is written.

The build reads it from here (see `[tool.hatch.version]` in `pyproject.toml`). It has a
file of its own so that a command can print it without loading anything else."""

__version__ = "0.1.0"
