"""Import PyTorch, with an error that says how to install it if it is missing.

All other files import torch from here.
"""

import re

_OLDEST_VERSION = (2, 13)

try:
    import torch
except ImportError as error:
    raise ImportError(
        'This needs PyTorch, which is not installed: `pip install "ddefind[torch]"`.'
    ) from error


def check_version(version: str) -> None:
    """Raise an error if this version of PyTorch is too old for the conversion.

    The graphs that `torch.export` makes differ between versions.

    >>> check_version("2.13.0+cpu")
    """
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_VERSION:
        raise ImportError(
            f"This needs PyTorch {'.'.join(map(str, _OLDEST_VERSION))} or newer, but "
            f'{version} is installed: `pip install --upgrade "ddefind[torch]"`.'
        )


check_version(torch.__version__)
