"""BLAS has one thread inside of fits, and its own number again after them."""

from support.command import python

# In a process of its own: tests themselves run with one thread.
TWO_THREADS_INSIDE = """
import threading

import numpy  # which loads BLAS
from threadpoolctl import threadpool_info

from ddefind._util.machine import one_blas_thread


def numbers():
    return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}


def longer():
    with one_blas_thread():
        entered.set()
        may_leave.wait()


entered, may_leave = threading.Event(), threading.Event()
other = threading.Thread(target=longer)
print(*numbers())
with one_blas_thread():
    other.start()
    entered.wait()
print(*numbers())
may_leave.set()
other.join()
print(*numbers())
"""


def test_the_last_of_several_threads_takes_the_limit_back():
    ended = python("-c", TWO_THREADS_INSIDE, OPENBLAS_NUM_THREADS="2")
    assert ended.stdout.split() == ["2", "1", "2"]
