"""Without double precision everything works, with fewer digits and without warnings."""

import os
import subprocess
import sys
from pathlib import Path


def test_single_precision():
    script = Path(__file__).parent / "support" / "single_precision.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={**os.environ, "JAX_ENABLE_X64": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all checks passed" in done.stdout
