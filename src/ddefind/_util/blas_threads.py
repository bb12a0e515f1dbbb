"""The threads of BLAS, of which fits use one each."""

import functools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

_LOCK = threading.Lock()
# The limit of BLAS, and how many are inside of it.
_LIMIT = ExitStack()
_inside = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS uses one thread. Fits run on threads of their own, one
    for each core, and small matrices take far longer on several threads that wait for
    each other.

    The limit is that of the whole process. Several threads may be inside: the first
    sets it, and the last takes it back."""
    global _inside
    with _LOCK:
        if _inside == 0:
            _setter().submit(_set_limit).result()
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                _setter().submit(_LIMIT.close).result()


@functools.cache
def _setter() -> ThreadPoolExecutor:
    """The thread that sets the limit and takes it back: threadpoolctl lets no other
    thread than the one that has set it."""
    return ThreadPoolExecutor(1, thread_name_prefix="blas-limit")


def _set_limit() -> None:
    _LIMIT.enter_context(_controller().limit(limits=1))


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
