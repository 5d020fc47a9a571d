"""A model writes like this course, with the student's classes: a text, and a film of how it was typed."""

import math
import re
import textwrap
from collections.abc import Callable
from html import escape

import torch
from torch import Tensor, nn

from helpers.film import film, play
from helpers.style import FAINT_WEIGHT, HALF_WEIGHT, OUTPUT, WEIGHT, as_text, waits_for
from helpers.waiting import Waiting

from .. import course_writer
from ..ablations import own_model, rates

__all__ = ["train_on_english", "write_english"]

COLUMNS, LETTER, LINE = 30, 10, 26  # of the typed text; pixels of a letter and a line
BARS, BAR, LONGEST = 6, 24, 160  # of the likeliest characters; pixels of a row, and of a bar of 100%
FRAMES, READ = 40, 60  # characters that are typed in the film, and of the prompt that are shown at most
MEASURED = (
    "On paragraphs that training has not read: {:.2f} bits per character\n({:.2f} for the first letter of a word, "
    "{:.2f} for a letter within one)."
)
NAMES = {" ": "space", "\n": "new line"}
_OWN: dict[str, Tensor] = {}  # weights that this process has trained


@waits_for("generate")
def write_english(
    model: Callable,
    rotate: Callable,
    probabilities: Callable,
    generate: Callable,
    prompt: str,
    temperature: float = 0.7,
    top_p: float = 0.95,
    n: int = 300,
) -> None:
    """What the trained weights write in the student's model, after a prompt, and a film of its beginning."""
    writer, characters, said = _writer(model, rotate)
    drawn: list[Tensor] = []

    def choose(logits: Tensor) -> Tensor:
        drawn.append(torch.as_tensor(probabilities(logits, temperature, None, top_p)))
        return torch.multinomial(drawn[-1], 1)[:, 0]

    tokens = course_writer.encode("\n" + prompt, characters)  # a paragraph begins
    with torch.no_grad():
        written = torch.as_tensor(generate(writer, tokens[None], n, course_writer.CONTEXT, choose))[0]
    start, text = course_writer.decode(tokens[1:], characters), course_writer.decode(written, characters)
    for paragraph in (start + text).split("\n"):
        print(textwrap.fill(paragraph, 96))
    found = course_writer.bits(writer, characters, course_writer.course_text(held_out=True))
    print(f"\n{said}\n{MEASURED.format(*found)}")
    play(_film(start, text[:FRAMES], [p[0] for p in drawn], characters))


def _writer(model: Callable, rotate: Callable) -> tuple[nn.Module, str, str]:
    """The student's model with trained weights, its alphabet, and a sentence on what is whose."""
    course, characters = course_writer.course_writer()
    course.load_state_dict(_OWN or course.state_dict())
    own = own_model(model, rotate, course, torch.arange(40)[None])
    whose = "Your own DecoderLM" if own else "The course's DecoderLM, because yours isn't right yet"
    weights = "you trained" if _OWN else "come with the course"
    return (own or course).eval(), characters, f"{whose}, with the weights that {weights}."


@waits_for("train")
def train_on_english(train: Callable, model: Callable, rotate: Callable) -> None:
    """Train the model anew with the student's loop, for `write_english`: three to four minutes of one core."""
    kept, characters = course_writer.untrained(), course_writer.alphabet()
    learner, steps = own_model(model, rotate, kept, torch.arange(40)[None]) or kept, course_writer.STEPS
    line = Waiting("training on English", steps)

    def watch(step: int, loss: float) -> None:
        line.step()
        if step + 1 in {steps // 16, steps // 4, steps}:
            with torch.no_grad():
                text = course_writer.sample(learner, characters, "\nAttention", 80)
            print(f"step {step + 1}, {loss / math.log(2):.2f} bits per character: {' '.join(text.split())}")

    train(course_writer.batches(), rates(steps, peak=course_writer.PEAK), 0.1, 1.0, learner, watch)
    kept.load_state_dict(learner.state_dict(), strict=False)
    _OWN.update(kept.state_dict())


class _Typed:
    """A text as far as it is typed, surprising characters shaded, and the likeliest ones to come as bars, as SVG."""

    width = COLUMNS * LETTER + 40

    def __init__(self, start: str, written: str, shares: list[Tensor], characters: str) -> None:
        self.start, self.written, self.shares, self.characters = start[-READ:], written, shares, characters
        text = (self.start + written).replace("\n", "¶")
        self.lines = re.findall(rf".{{1,{COLUMNS - 1}}}(?: |$)|.{{1,{COLUMNS}}}", text)

    def type(self, frame: int) -> str:
        """Go to a frame: so many characters are typed, and the next one is drawn. Says so."""
        self.typed = frame
        p, next_one = self.shares[frame], self.written[frame]
        self.bars = [self.characters[token] for token in p.argsort(descending=True)[:BARS] if p[token] >= 0.005]
        if next_one not in self.bars:
            self.bars[BARS - 1 :] = [next_one]
        before = (self.start + self.written[:frame])[-12:].replace("\n", "¶")
        return f"After “{before}” it draws {_name(next_one)}, which had {self._share(next_one):.0%}."

    def svg(self) -> str:
        """The frame, on white."""
        height = len(self.lines) * LINE + BARS * BAR + 36
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" '
            f'font-size="16"><path fill="#fff" d="M0 0H{self.width}V{height}H0z"/>{self._text()}{self._rows()}</svg>'
        )

    def _text(self) -> str:
        place, parts = 0, []
        for number, line in enumerate(self.lines):
            y = 20 + number * LINE
            seen = line[: max(0, len(self.start) + self.typed + 1 - place)]
            for column in range(len(seen)):
                parts.append(self._shade(place + column - len(self.start), 20 + column * LETTER, y - 3))
            across = f'textLength="{len(seen) * LETTER}" lengthAdjust="spacingAndGlyphs"'
            letters = escape(seen).replace(" ", "\u00a0")
            parts.append(f'<text x="20" y="{y + 14}" {across if seen else ""}>{letters}</text>')
            place += len(line)
        return "".join(parts)

    def _shade(self, written: int, x: int, y: int) -> str:
        """The ground of a written character (the prompt has none): by how unlikely it was, and framed if it is new."""
        if not 0 <= written <= self.typed:
            return ""
        bits = -math.log2(max(1e-9, self.shares[written][self.characters.index(self.written[written])].item()))
        ground = HALF_WEIGHT if bits > 3 else FAINT_WEIGHT if bits > 1 else "none"
        edge = f' stroke="{WEIGHT}" stroke-width="2"' if written == self.typed else ""
        return f'<path fill="{ground}"{edge} d="M{x} {y}h{LETTER}v{LINE - 4}h-{LETTER}z"/>' if bits > 1 or edge else ""

    def _rows(self) -> str:
        return "".join(self._row(one, len(self.lines) * LINE + 32 + row * BAR) for row, one in enumerate(self.bars))

    def _row(self, one: str, y: int) -> str:
        share, ground = self._share(one), WEIGHT if one == self.written[self.typed] else HALF_WEIGHT
        return (
            f'<text x="110" y="{y + 14}" text-anchor="end">{escape(NAMES.get(one, one))}</text>'
            f'<path fill="{ground}" d="M120 {y}h{LONGEST * share:.0f}v{BAR - 6}h-{LONGEST * share:.0f}z"/>'
            f'<text x="{128 + LONGEST * share:.0f}" y="{y + 14}" fill="{as_text(OUTPUT)}">{share:.0%}</text>'
        )

    def _share(self, one: str) -> float:
        return self.shares[self.typed][self.characters.index(one)].item()


def _name(one: str) -> str:
    return f"a {NAMES[one]}" if one in NAMES else f"“{one}”"


def _film(start: str, written: str, shares: list[Tensor], characters: str) -> str:
    typed = _Typed(start, written, shares, characters)
    described = (
        "A text is typed, a character a frame. Below it the characters that may come next, as bars by their "
        "probability. Shaded is what had less than one half, darker what had less than one eighth."
    )
    open_ones = [frame for frame in range(len(written)) if shares[frame].max() < 0.5]  # where much may come
    return film(typed, typed.type, range(len(written)), described, milliseconds=500, still=max(open_ones, default=-1))
