"""Draws as SVG, on a card that is legible on a light page and on a dark one, and when narrow.

Text stays text, in the reader's font, so its width is only estimated. Numbers are rounded: no
version of Python and no machine writes another byte.
"""

import math
from dataclasses import dataclass, field
from html import escape
from typing import Literal, NamedTuple

import svg

WIDTH = 560
MARGIN = 20
SIZE = 14  # of a letter: on a screen of 400 pixels, it has 10 of them
LETTER = 0.54 * SIZE  # its width, on average
# Blue, vermilion, grey, green and purple of Okabe and Ito, which differ for the colour-blind as
# well; each has a contrast of 3 on both cards: https://jfly.uni-koeln.de/color/
STYLE = """
text { font: 14px sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: bold }
.strong { font-weight: bold }
.quiet { fill: #59636e }
.card { fill: #ffffff; stroke: #d1d9e0 }
.grid { stroke: #d1d9e0 }
.hint { stroke: #59636e; stroke-dasharray: 3 3; fill: none }
.blue { fill: #0072b2; stroke: #0072b2 }
.vermilion { fill: #d55e00; stroke: #d55e00 }
.grey { fill: #7d8590; stroke: #7d8590 }
.green { fill: #009e73; stroke: #009e73 }
.purple { fill: #cc79a7; stroke: #cc79a7 }
.ink { fill: #1f2328; stroke: #1f2328 }
.ring { fill: #ffffff }
rect:not(.card) { stroke: none }
polyline { fill: none !important; stroke-width: 2.5; stroke-linejoin: round }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.quiet { fill: #9198a1 }
.card { fill: #0d1117; stroke: #3d444d }
.grid { stroke: #3d444d }
.hint { stroke: #9198a1 }
.ink { fill: #f0f6fc; stroke: #f0f6fc }
.ring { fill: #0d1117 }
}
"""
Colour = Literal["blue", "vermilion", "grey", "green", "purple", "ink"]
Anchor = Literal["start", "middle", "end"]


class Scale(NamedTuple):
    """Where the numbers between two numbers are drawn, between two places."""

    low: float
    high: float
    first: float
    last: float
    is_log: bool = False

    def place(self, number: float) -> float:
        """Give the place of a number."""
        low, high, number = map(math.log10 if self.is_log else float, (self.low, self.high, number))
        return self.first + (self.last - self.first) * (number - low) / (high - low)

    def powers(self) -> list[float]:
        """List the powers of ten from the lowest number to the highest."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


@dataclass
class Drawing:
    """A drawing that grows downwards: `y` is where it ends so far."""

    title: str
    y: float = 2.2 * MARGIN
    elements: list[svg.Element] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, kind: str = "", anchor: Anchor = "start"
    ) -> None:
        """Write on a line that has its middle at this height."""
        self.elements.append(
            svg.Text(
                x=_rounded(x),
                y=_rounded(y + 0.35 * SIZE),
                text=escape(words, quote=False),
                text_anchor=None if anchor == "start" else anchor,
                class_=[kind] if kind else None,
            )
        )

    def paragraph(self, words: str) -> None:
        """Write a note, in as many lines as it needs."""
        line = ""
        for word in [*words.split(), ""]:
            longer = f"{line} {word}".strip()
            if line and (not word or len(longer) * LETTER > WIDTH - 2 * MARGIN):
                self.text(MARGIN, self.y + SIZE / 2, line, "quiet")
                self.y += 1.35 * SIZE
                longer = word
            line = longer

    def bar(self, left: float, right: float, y: float, colour: Colour) -> None:
        """Draw a bar, which has its middle at this height."""
        x, width = _rounded(left), _rounded(right - left)
        self.elements.append(
            svg.Rect(x=x, y=_rounded(y - 6), width=width, height=12, class_=[colour])
        )

    def line(
        self, first: tuple[float, float], last: tuple[float, float], kind: str, width: float = 1
    ) -> None:
        """Draw a straight line."""
        (x1, y1), (x2, y2) = ([_rounded(place) for place in point] for point in (first, last))
        self.elements.append(
            svg.Line(x1=x1, y1=y1, x2=x2, y2=y2, stroke_width=width, class_=[kind])
        )

    def curve(self, points: list[tuple[float, float]], colour: Colour) -> None:
        """Draw lines from point to point."""
        places = [svg.Point(_rounded(x), _rounded(y)) for x, y in points]
        self.elements.append(svg.Polyline(points=places, class_=[colour]))

    def dot(self, x: float, y: float, colour: Colour, is_hollow: bool = False) -> None:
        """Draw a dot, or a ring."""
        self.elements.append(
            svg.Circle(
                cx=_rounded(x),
                cy=_rounded(y),
                r=4,
                class_=[colour, "ring"] if is_hollow else [colour],
                stroke_width=2,
            )
        )

    def written(self, finding: str) -> str:
        """Write the drawing, and what it shows for those who do not see it."""
        height = _rounded(self.y + MARGIN / 2)
        card = svg.Rect(x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=8, class_=["card"])
        title = svg.Text(x=MARGIN, y=MARGIN + 10, text=escape(self.title), class_=["title"])
        drawing = svg.SVG(
            viewBox=svg.ViewBoxSpec(0, 0, WIDTH, height),
            width=WIDTH,
            height=height,
            extra={"role": "img"},
            elements=[
                svg.Title(text=escape(finding, quote=False)),
                svg.Style(text=STYLE),
                card,
                title,
                *self.elements,
            ],
        )
        return ">\n<".join(str(drawing).split("><")) + "\n"


def _rounded(place: float) -> float:
    return round(place, 1)
