"""The measurements behind the tables of `docs/`: see `README.md` in this folder."""
