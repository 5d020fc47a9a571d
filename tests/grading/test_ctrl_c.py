"""Ctrl-C at a moment at which what it raises is dropped."""

import os
import signal
import threading

import pytest

from autograder.grading.ctrl_c import ctrl_c


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_a_press_is_heard_at_the_next_check():
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c() as presses:
        presses.check()
        press()
        with pytest.raises(KeyboardInterrupt):
            presses.check()
    assert signal.getsignal(signal.SIGINT) is before


def test_whoever_waits_hears_it_at_once():
    with ctrl_c() as presses, pytest.raises(KeyboardInterrupt), presses.heard_at_once():
        press()
        pytest.fail("nobody heard it")


def test_whoever_begins_to_wait_hears_what_was_pressed_before():
    with ctrl_c() as presses:
        press()
        with pytest.raises(KeyboardInterrupt), presses.heard_at_once():
            pytest.fail("nobody heard it")


def test_a_second_press_is_heard_at_once():
    with ctrl_c():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_a_thread_may_grade_too():
    def work():
        with ctrl_c() as presses:
            presses.check()
            done.append(signal.getsignal(signal.SIGINT))

    done = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.getsignal(signal.SIGINT)]
