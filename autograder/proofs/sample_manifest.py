"""What `attn sample-class` notes beside the gradebook: who of a sample class is there for what."""

import json
from pathlib import Path

from autograder.course.paths import Course


def manifest_of(course: Course) -> Path:
    return course.classroom / "sample.json"


def kinds(course: Course) -> dict[str, str]:
    """What each student of a sample class is there to show; nothing where the class is a real one."""
    try:
        return {
            name: entry["kind"] for name, entry in json.loads(manifest_of(course).read_text(encoding="utf-8")).items()
        }
    except (OSError, ValueError, KeyError, AttributeError):
        return {}
