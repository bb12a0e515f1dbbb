"""PyTorch, or an error that says how to get it. All other files import it from here."""

import re

_OLDEST = (2, 13)

try:
    import torch
except ImportError as error:
    raise ImportError(
        'This needs PyTorch, which is not installed: `pip install "ddefind[torch]"`.'
    ) from error


def check_version(version: str) -> None:
    """Refuse a PyTorch whose `torch.export` we do not know.

    >>> check_version("2.13.0+cpu")
    """
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
        raise ImportError(
            f"This needs PyTorch {'.'.join(map(str, _OLDEST))} or newer, but {version} "
            'is installed: `pip install --upgrade "ddefind[torch]"`.'
        )


check_version(torch.__version__)
