"""Other libraries, which live in an environment of their own beside this one.

    python -m venv .venv-baselines
    .venv-baselines/bin/pip install torch==2.13.0 numpy scipy
    .venv-baselines/bin/pip install --no-deps torchlaplace==0.0.4 torchdde==0.1.3 \\
        jaxtyping wadler_lindig lightning-utilities

`BASELINES` is another path to its Python, and `BASELINE_EPOCHS` another number of
epochs than the published 1,000."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

_HERE = Path(__file__).parent
_USUAL = _HERE.parent / ".venv-baselines" / "bin" / "python"
INSTALL = f"not installed: see {_HERE.name}/_baselines.py"
EPOCHS = int(os.environ.get("BASELINE_EPOCHS", "1000"))


def run(script: str, arrays: dict[str, Any], *arguments: Any) -> dict[str, Any] | None:
    """What a script of `other_libraries` says of the `arrays`; None where the
    environment is not there."""
    python = Path(os.environ.get("BASELINES", _USUAL))
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.npz"
        np.savez(path, **arrays)
        words = [python, _HERE / "other_libraries" / script, path, *map(str, arguments)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            words, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])
