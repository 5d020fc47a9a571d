"""What students and instructors see, in a real browser: JupyterLab, static pages, feedback. Needs Chromium; skipped
where there is none."""
