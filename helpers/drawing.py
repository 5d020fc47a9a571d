"""A figure of matplotlib as SVG of paths and words, as a `Board` draws: small, and safe to show on any page.

Matplotlib's own SVG is several times as large, and its styles and definitions are no part of cleaned HTML. Neither
hatches nor pixels are drawn here: a small grid is a `pcolormesh`, not an `imshow`."""

from html import escape

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.path import Path

CSS_DPI = 96
"""Pixels of a page to an inch."""
ANCHOR = {"left": "start", "center": "middle", "right": "end"}
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "z"}


def svg(width: int, height: int, parts: str) -> str:
    """Paths and words as a picture on white."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="DejaVu Sans,Verdana,sans-serif"><path fill="#fff" d="M0 0H{width}V{height}H0z"/>{parts}</svg>'
    )


def figure_as_svg(figure: Figure) -> str:
    """The figure as it stands."""
    figure.set_dpi(CSS_DPI)
    renderer = _Plain(round(figure.bbox.width), round(figure.bbox.height))
    figure.draw(renderer)
    return svg(renderer.width, renderer.height, "".join(renderer.parts))


class _Plain(RendererBase):
    """What matplotlib calls to draw a figure, by the names that it gives."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.width, self.height = width, height
        self.parts: list[str] = []

    def get_canvas_width_height(self) -> tuple[int, int]:
        return self.width, self.height

    def points_to_pixels(self, points):
        return points * CSS_DPI / 72

    def draw_path(self, gc, path, transform, rgbFace=None) -> None:
        fill, width = on_white(rgbFace), self.points_to_pixels(gc.get_linewidth())
        line = f' stroke="{on_white(gc.get_rgb())}" stroke-width="{width:.3g}"' if width else ""
        path = _within(gc.get_clip_rectangle(), transform.transform_path(path), filled=fill != "none")
        if pattern := gc.get_dashes()[1]:
            path = _dashed(path, *map(self.points_to_pixels, pattern[:2]))
        if len(path) and (line or fill != "none"):
            self.parts.append(f'<path fill="{fill}"{line} d="{self._data(path)}"/>')

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None) -> None:
        if ismath or angle:  # the outlines of its letters
            super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)
            return
        anchor = "left"
        if mtext is not None:  # one line: where another font is narrower, it stays in its place
            x, anchor = mtext.get_transform().transform(mtext.get_unitless_position())[0], mtext.get_ha()
        size = self.points_to_pixels(prop.get_size_in_points())
        self.parts.append(
            f'<text fill="{on_white(gc.get_rgb())}" font-size="{size:.3g}" font-weight="{prop.get_weight()}" '
            f'text-anchor="{ANCHOR[anchor]}" x="{x:.4g}" y="{y:.4g}">{escape(s)}</text>'
        )

    def _data(self, path: Path) -> str:
        pixels = lambda points: " ".join(f"{self.height - x if i % 2 else x:.4g}" for i, x in enumerate(points))
        segments = path.iter_segments(simplify=False)
        return "".join(LETTERS[code] + (pixels(points) if code != Path.CLOSEPOLY else "") for points, code in segments)


def on_white(colour) -> str:
    """A colour that may have an opacity, as it looks on white."""
    if colour is None or colour[3:] == (0,):
        return "none"
    opacity = colour[3] if len(colour) > 3 else 1
    return to_hex([1 - opacity * (1 - part) for part in colour[:3]])


def _within(box, path: Path, *, filled: bool) -> Path:
    """What of a path lies in a box."""
    if box is None or all(box.contains(*corner) for corner in path.get_extents().get_points()):
        return path
    return path.clip_to_bbox(box) if filled else path.cleaned(clip=box.extents, simplify=False)


def _dashed(path: Path, drawn: float, left_out: float) -> Path:
    """The dashes of a path as lines of their own."""
    dashes = []
    for line in path.to_polygons(closed_only=False):
        far = np.append(0, np.hypot(*np.diff(line, axis=0).T).cumsum())
        for start in np.arange(0, far[-1], drawn + left_out):
            end = min(start + drawn, far[-1])
            at = [start, *far[(far > start) & (far < end)], end]
            dashes.append(Path(np.column_stack([np.interp(at, far, line[:, axis]) for axis in (0, 1)])))
    return Path.make_compound_path(*dashes)
