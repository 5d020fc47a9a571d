"""What students and instructors see, in a real browser (Chromium; skipped where there is none): JupyterLab, pages,
feedback."""
