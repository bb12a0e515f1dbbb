"""The version of the package, for those who must not load the rest."""

__version__ = "0.1.0"
