"""Imported into a warm process by test_fork_server.py: starts a thread that waits for ever, as CUDA does where there is
a GPU."""

import ctypes
import threading

PR_SET_NAME = 15
NAME = b"cuda00001400006"


def _wait() -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, NAME, 0, 0, 0)
    named.set()
    threading.Event().wait()


named = threading.Event()
threading.Thread(target=_wait, daemon=True).start()
named.wait()
