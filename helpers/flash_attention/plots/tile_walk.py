"""Pictures of unit 09: the walk over the square of scores, tile by tile, and what it moves."""

from dataclasses import dataclass

from helpers.board import Board, faint
from helpers.film import film, play
from helpers.paper import image
from helpers.style import FAINT_WEIGHT, KEY, MASKED, OUTPUT, QUERY, VALUE, WEIGHT

__all__ = ["tile_walk", "tile_walk_still"]

Place = tuple[float, float, float, float]  # left, top, width and height, in cells of the board
LEFT, TOP, WIDE, HIGH = 1.4, 2.4, 7.2, 9.1  # of the square of scores
CHIP = 10.6  # where the right half begins
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True)
class Walk:
    """Attention of n queries to n keys of width d, in square tiles of `block` rows; n is a multiple of it."""

    n: int = 1024
    d: int = 64
    block: int = 256

    @property
    def side(self) -> int:
        """Tiles along one side of the square."""
        return self.n // self.block

    @property
    def standard(self) -> int:
        """Numbers that attention in three separate steps moves."""
        return 4 * self.n**2 + 4 * self.n * self.d

    @property
    def held(self) -> int:
        """Numbers on the chip: a tile each of Q, K, V and O, one of scores, and m and ℓ."""
        return 4 * self.block * self.d + self.block**2 + 2 * self.block

    def moved(self, steps: int) -> dict[str, int]:
        """Numbers moved after so many tiles, by what they are."""
        tile, rows = self.block * self.d, -(-steps // self.side)
        done = steps // self.side
        return {"Q": rows * tile, "K": steps * tile, "V": steps * tile, "O, L": done * (tile + self.block)}


def tile_walk(n: int = 1024, d: int = 64, block: int = 256) -> None:
    """The walk as a film, one frame per tile: what is on the chip, what was read. Its last frame is the whole story."""
    play(_film(Walk(n, d, block)))


def tile_walk_still() -> None:
    """Attention halfway through the square of scores: one tile of each matrix is on the chip, solid; earlier tiles of
    scores are used and forgotten."""
    play(image(halfway(Walk()).encode(), " ".join((tile_walk_still.__doc__ or "").split()), sharp=1))


def halfway(walk: Walk) -> str:
    """The walk in the middle of a row, as SVG."""
    board = Board(20.4, 12.6)
    _draw(board, walk, step=walk.side * (walk.side // 2) + walk.side // 2 + 1)
    return board.svg()


def _film(walk: Walk) -> str:
    board = Board(20.4, 12.6)

    def frame(step: int) -> str:
        _draw(board, walk, step)
        return _told(walk, step)

    described = (
        "Flash attention walks over the square of scores tile by tile, row after row; what is on the chip is solid."
    )
    return film(board, frame, range(1, walk.side**2 + 2), described, milliseconds=1200)


def _told(walk: Walk, step: int) -> str:
    """A frame in words."""
    moved = sum(walk.moved(min(step, walk.side**2)).values()) / 1e6
    if step > walk.side**2:
        return (
            f"Done: {moved:.2f} million numbers were moved, {walk.standard / 1e6 / moved:.1f} times fewer than the "
            f"{walk.standard / 1e6:.2f} million of three separate steps. No score ever left the chip."
        )
    i, j = divmod(step - 1, walk.side)
    first = f"A new row: {subscripted('Q', i)} is fetched, and stays. " if j == 0 else ""
    last = f" The row is complete: {subscripted('O', i)} is written." if j == walk.side - 1 else ""
    return (
        f"Tile {step} of {walk.side**2}. {first}{subscripted('K', j)} and {subscripted('V', j)} come in, the scores "
        f"{subscripted('S', i, j)} are made, used and forgotten.{last} So far {moved:.2f} million numbers were moved."
    )


def _draw(board: Board, walk: Walk, step: int) -> None:
    """Step 1 … side²: that tile is on the chip. One step more: all is done."""
    board.wipe()
    over = step > walk.side**2
    i, j = (-1, -1) if over else divmod(step - 1, walk.side)
    _chip(board, walk, i, j, over)
    _square(board, walk, step, i, j)
    _traffic(board, walk, min(step, walk.side**2), "tiled" if over else "so far")


def _square(board: Board, walk: Walk, step: int, i: int, j: int) -> None:
    """The tiles of the scores, with Q on the left, K and V on top, and O on the right: what is on the chip is solid."""
    wide, high = WIDE / walk.side, HIGH / walk.side
    for k in range(walk.side):
        x, y, written = LEFT + k * wide, TOP + k * high, step > walk.side * (k + 1)
        _tile(board, (LEFT - 1.2, y, 1, high), QUERY, "Q", k, solid=k == i)
        _tile(board, (LEFT + WIDE + 0.2, y, 1, high), OUTPUT, "O", k, solid=k == i, strength=0.5 if written else 0.15)
        _tile(board, (x, TOP - 1.1, wide, 0.9), KEY, "K", k, solid=k == j)
        _tile(board, (x, TOP - 2.1, wide, 0.9), VALUE, "V", k, solid=k == j)
        for other in range(walk.side):
            number = k * walk.side + other + 1
            place = (LEFT + other * wide, y, wide, high)
            if number == step:
                _tile(board, place, WEIGHT, "S", k, other, solid=True)
            else:
                board.box(
                    *_inside(*place), FAINT_WEIGHT if number < step else MASKED, str(number) if number < step else ""
                )
    words = f"{walk.n} × {walk.n} scores in tiles of {walk.block} × {walk.block}"
    board.text(LEFT + WIDE / 2, TOP + HIGH + 0.6, words)


def _tile(
    board: Board, place: Place, colour: str, name: str, *indices: int, solid: bool, strength: float = 0.2
) -> None:
    board.box(*_inside(*place), faint(colour, 1 if solid else strength), subscripted(name, *indices), size=11)


def _inside(left: float, top: float, width: float, height: float) -> Place:
    return left + 0.04, top + 0.05, width - 0.08, height - 0.1


def subscripted(name: str, *indices: int) -> str:
    return name + "".join(str(index + 1) for index in indices).translate(SUBSCRIPTS)


def _chip(board: Board, walk: Walk, i: int, j: int, over: bool) -> None:
    """What the fast memory holds at this moment; in the end what went through it."""
    board.box(CHIP, 0.4, 9.5, 6.4, MASKED)
    board.text(CHIP + 0.3, 1.1, f"on the chip (SRAM): {walk.held / 1e6:.2f} million numbers", ha="left", size=10)
    if over:
        _summary(board, walk)
    else:
        _held(board, walk, i, j)


def _held(board: Board, walk: Walk, i: int, j: int) -> None:
    left = CHIP + 0.3
    tiles = [("Q", (i,), QUERY), ("K", (j,), KEY), ("V", (j,), VALUE), ("S", (i, j), WEIGHT), ("O", (i,), OUTPUT)]
    for name, indices, colour in [*tiles, ("m", (), OUTPUT), ("ℓ", (), OUTPUT)]:
        width = {0: 0.55, 1: 1.1, 2: 2.1}[len(indices)]
        board.box(left, 1.8, width, 2.1, colour, subscripted(name, *indices), size=12)
        left += width + 0.2
    q, k, v, s, o = (subscripted(name, *indices) for name, indices, _ in tiles)
    last = f", then write {o}" if j == walk.side - 1 else ""
    for y, line in (
        (4.8, f"fetch {f'{q}, ' if j == 0 else ''}{k} and {v}"),
        (5.9, f"make {s}, rescale {o}, add, forget {s}{last}"),
    ):
        board.text(CHIP + 0.3, y, line, ha="left", size=10, colour="black")


def _summary(board: Board, walk: Walk) -> None:
    for y, colours, line in (
        (2.2, (WEIGHT,), f"Scores: {walk.side**2} tiles, each made, used and forgotten."),
        (3.4, (QUERY,), "Q: every tile read once."),
        (4.6, (KEY, VALUE), f"K and V: read once for every row, {walk.side} times."),
        (5.8, (OUTPUT,), "O: every tile written once, at the end of its row."),
    ):
        for k, colour in enumerate(colours):
            board.box(CHIP + 0.3 + 0.3 * k, y - 0.35, 0.6 / len(colours), 0.7, colour)
        board.text(CHIP + 1.2, y, line, ha="left", size=10, colour="black")


def _traffic(board: Board, walk: Walk, steps: int, label: str) -> None:
    """Numbers moved so far, against what standard attention moves in the end."""
    left, full, right, top = CHIP + 1.9, 7.6, CHIP + 9.5, 8.6
    board.text(right, top - 0.6, "million numbers moved between memory and chip", ha="right")
    for y, name in ((top, label), (top + 1.5, "standard")):
        board.text(left - 0.2, y + 0.5, name, ha="right", colour="black")
    board.box(left, top + 1.5, full, 1, MASKED)
    board.text(right - 0.2, top + 2, f"{walk.standard / 1e6:.2f}", ha="right", colour="black")
    moved = walk.moved(steps)
    for numbers, colour in zip(moved.values(), (QUERY, KEY, VALUE, OUTPUT)):
        width = full * numbers / walk.standard
        board.box(left, top, width, 1, colour)
        left += width
    board.text(left + 0.2, top + 0.5, f"{sum(moved.values()) / 1e6:.2f}", ha="left", colour="black")
