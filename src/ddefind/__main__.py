"""`python -m ddefind` is the command line, as `ddefind` is."""

from ._cli.main import main

if __name__ == "__main__":
    main()
