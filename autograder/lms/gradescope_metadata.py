"""Gradescope's export of submissions: numbered folders, and submission_metadata.yml, which says whose they are and when
they came."""

import re
from dataclasses import replace
from datetime import datetime

from autograder import timestamps
from autograder.lms.claim import GRADESCOPE, Claim


def claims(folder: str, people: dict[str, list[dict]]) -> list[Claim]:
    """What submission_metadata.yml says of `submission_123`: a claim for each of a group."""
    return [_claim(folder.removeprefix("submission_"), one) for one in people.get(folder, [])]


def _claim(number: str, one: dict) -> Claim:
    names, time = (one["name"],) if one["name"] else (), _time(one["time"])
    who = Claim(GRADESCOPE, names, number, one["sid"], one["email"].casefold(), order=int(number))
    return replace(who, time=time, time_from="lms") if time else who


def _time(text: str) -> datetime | None:
    """`2026-04-26 17:34:00.861687000 Z`, or with `-08:00` for the Z."""
    found = re.match(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)", text)
    try:
        return (
            timestamps.to_utc(datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3].replace('Z', '+00:00')}"))
            if found
            else None
        )
    except (ValueError, OverflowError):
        return None


def submitters(data: bytes) -> dict[str, list[dict]]:
    """Submission → who handed it in, of Gradescope's metadata. Called in a process with limits."""
    import yaml

    content = yaml.load(
        data, getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    )  # makes lists, dicts and text, nothing else
    found = {}
    for name, one in content.items() if isinstance(content, dict) else ():
        people = one.get(":submitters") if isinstance(one, dict) else None
        rows = [
            _submitter(who, one.get(":created_at"))
            for who in (people if isinstance(people, list) else [])[:50]
            if isinstance(who, dict)
        ]
        found[str(name)[:100]] = rows
    return found


def _submitter(who: dict, time: object) -> dict:
    said = {key: who.get(f":{key}") for key in ("name", "sid", "email")} | {"time": time}
    return {key: " ".join(text.split())[:200] if isinstance(text, str) else "" for key, text in said.items()}
