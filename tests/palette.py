"""How far colours are apart for different readers: `python -m tests.palette` prints the table of the course's palette.

ΔE is the distance in CAM02-UCS (Luo, Cui & Li 2006), of the colours as they are, as a deuteranope and a protanope see
them (Machado, Oliveira & Fernandes 2009, severity 100), and as a grey of the same luminance."""

from itertools import combinations

import numpy as np
from colorspacious import cspace_convert

ENOUGH = 15.0
_WHITE = cspace_convert(np.ones(3), "sRGB1", "XYZ100")


def _as_seen_with(kind: str):
    space = {"name": "sRGB1+CVD", "cvd_type": kind, "severity": 100}
    return lambda rgb: np.clip(cspace_convert(rgb, space, "sRGB1"), 0, 1)


def _grey(rgb: np.ndarray) -> np.ndarray:
    luminance = cspace_convert(rgb, "sRGB1", "XYZ100")[1] / 100
    return np.clip(cspace_convert(luminance * _WHITE, "XYZ100", "sRGB1"), 0, 1)


VIEWS = {
    "normal": lambda rgb: rgb,
    "deuteranopia": _as_seen_with("deuteranomaly"),
    "protanopia": _as_seen_with("protanomaly"),
    "greyscale": _grey,
}


def distance(one: str, other: str, view: str) -> float:
    """ΔE of two colours (#rrggbb) in a view."""
    places = [cspace_convert(VIEWS[view](_rgb(colour)), "sRGB1", "CAM02-UCS") for colour in (one, other)]
    return float(np.linalg.norm(places[0] - places[1]))


def table(colours: dict[str, str]) -> list[tuple[str, str, dict[str, float]]]:
    """For each pair of names its ΔE in all views."""
    return [
        (a, b, {view: distance(colours[a], colours[b], view) for view in VIEWS}) for a, b in combinations(colours, 2)
    ]


def _rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


if __name__ == "__main__":
    from helpers import palette

    five = {name: getattr(palette, name) for name in ("QUERY", "KEY", "VALUE", "WEIGHT", "OUTPUT")} | {
        "white": "#ffffff"
    }
    print(f"{'':16}" + "".join(f"{view:>14}" for view in VIEWS))
    for one, other, found in table(five):
        print(f"{one + ' ' + other:16}" + "".join(f"{value:14.1f}" for value in found.values()))
