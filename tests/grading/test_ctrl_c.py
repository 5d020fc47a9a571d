"""Ctrl-C at a moment at which what it raises is dropped."""

import os
import signal
import threading
from contextlib import suppress

import pytest

from autograder.grading.ctrl_c import ctrl_c


def test_a_ctrl_c_that_got_lost_is_heard_later():
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c() as stop_if_pressed:
        stop_if_pressed()
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop_if_pressed()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_may_grade_too():
    def work():
        with ctrl_c() as stop_if_pressed:
            stop_if_pressed()
            done.append(signal.getsignal(signal.SIGINT))

    done = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.getsignal(signal.SIGINT)]
