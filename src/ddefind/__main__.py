"""`python -m ddefind` is the command line, as `ddefind` is."""

from ._cli.messages import quiet_interrupts


def main() -> None:
    """Run the command line."""
    with quiet_interrupts():
        from ._cli.main import main as run
    run()


if __name__ == "__main__":
    main()
