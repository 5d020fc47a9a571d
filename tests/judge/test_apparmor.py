"""Where AppArmor keeps user namespaces from ordinary users, one line says so and what to do."""

import os

import pytest

from autograder import doctor
from autograder.judge.kernel_manager import KernelManager
from autograder.judge.sandbox import apparmor


@pytest.fixture
def ubuntu(tmp_path, monkeypatch):
    """An ordinary user there. Returns the file with the setting."""
    setting = tmp_path / "setting"
    setting.write_text("1\n")
    monkeypatch.setattr(apparmor, "SETTING", setting)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return setting


def _namespaces(monkeypatch) -> doctor.Finding:
    monkeypatch.setattr(doctor, "_answers", lambda command: False)
    return next(finding for finding in doctor._sandbox() if finding.what == "user namespaces")


def test_the_doctor_and_a_refusal_name_it_and_what_to_do(ubuntu, monkeypatch):
    finding = _namespaces(monkeypatch)
    assert "AppArmor" in finding.found and "sudo sysctl -w" in finding.advice
    for sandbox in ("namespaces", "bubblewrap"):
        said = KernelManager(sandbox)._refusal("unshare: Permission denied")
        assert apparmor.WHY in said and apparmor.ADVICE in said and "\n" not in said


@pytest.mark.parametrize("text", ["0\n", None])
def test_where_it_is_allowed_or_there_is_no_apparmor_nothing_is_said_of_it(ubuntu, monkeypatch, text):
    ubuntu.unlink() if text is None else ubuntu.write_text(text)
    assert not apparmor.restricts() and "AppArmor" not in _namespaces(monkeypatch).found
    assert "AppArmor" not in KernelManager()._refusal("no reason")


def test_root_is_not_meant(ubuntu, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not apparmor.restricts()
