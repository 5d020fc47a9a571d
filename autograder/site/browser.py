"""The browser of this machine, for pictures and for tests."""

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Where Chromium is; None where there is none."""
