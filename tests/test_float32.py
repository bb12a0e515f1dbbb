"""Without double precision everything works, with fewer digits and without warnings."""

from pathlib import Path

from support.command import python


def test_single_precision():
    script = Path(__file__).parent / "support" / "single_precision.py"
    done = python("-W", "error", script, JAX_ENABLE_X64="0")
    assert "all checks passed" in done.stdout
