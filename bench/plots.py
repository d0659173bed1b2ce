"""The plots of docs/performance.md: what was measured, simulated and computed, as pictures.

`bench.page` writes them to docs/images. A finding is what a picture shows, in words and with the
numbers of now: the page has it for those who do not see the picture.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from bench import bursts, results
from bench.delivery import NAMES
from bench.drawing import MARGIN, SIZE, WIDTH, Colour, Drawing, Scale
from bench.results import Measures
from bench.workloads import WORKLOADS
from inorder.cost import Bill, Workload, bill_of, bill_of_contender, contenders
from inorder.model.policies import policy

BASE = "inorder"
LEFT = 170  # of the bars, right of their names
RIGHT = WIDTH - 80  # of the longest bar, left of its number
ROW = 20
PARTS: dict[str, Colour] = {"work": "grey", "order": "blue", "log": "vermilion"}
# Where all contenders do the same work. Elsewhere some work for events that others leave out.
SAME_WORK = ("burst", "gap", "uncontended")

Medians = Mapping[str, Mapping[str, Measures]]  # by workload and contender


class Plot(NamedTuple):
    """A plot: its file in docs/images, its text, and what it shows."""

    file: str
    svg: str
    finding: str


def plots(medians: Medians) -> dict[str, Plot]:
    """Draw all plots, by the names of their places in the page."""
    drawn = {
        "plot of cost": ("bench-cost.svg", *cost(medians)),
        "plot of delay": ("bench-delay.svg", *delay(medians)),
        "plot of bursts": ("bench-bursts.svg", *makespan(medians["burst"], bursts.read())),
        "plot of months": ("bench-months.svg", *months()),
    }
    return {
        place: Plot(file, drawing.written(finding), finding)
        for place, (file, drawing, finding) in drawn.items()
    }


def cost(medians: Medians) -> tuple[Drawing, str]:
    """Draw what a million events cost: work, which is the cheapest contender's bill, and more."""
    drawing = Drawing("Dollars for a million events")
    shown = {name: medians[name] for name in SAME_WORK}
    highest = max((measures["dollars"] for measures in all_of(shown)), default=1)
    scale = Scale(0, highest, LEFT, RIGHT)
    findings: list[str] = []
    for name, by_contender in shown.items():
        work = min((one["dollars_without_log"] for one in all_of({name: by_contender})), default=0)
        panel(drawing, name)
        drawing.y += 0 if findings else SIZE  # for the names of the parts
        for contender, measures, y in rows(drawing, by_contender):
            ends = [0, work, measures["dollars_without_log"], measures["dollars"]]
            parts = dict(zip(PARTS, pairwise(ends), strict=True))
            for part, (start, end) in parts.items():
                first, last = scale.place(start), scale.place(end)
                drawing.bar(first, last, y, PARTS[part])
                if contender == BASE and not findings:
                    drawing.text((first + last) / 2, y - 16, part, "quiet", "middle")
            drawing.text(scale.place(ends[-1]) + 6, y, f"{ends[-1]:.2f}")
            if contender == BASE:
                of_parts = (f"{part} {end - start:.2f}" for part, (start, end) in parts.items())
                findings.append(f"{name} {ends[-1]:.2f} ({', '.join(of_parts)})")
    explained = "work: the cheapest contender's bill; log: that of executions; order: the rest"
    note(drawing, all_of(shown), explained)
    return drawing, f"Dollars for a million events with {BASE}: {'; '.join(findings)}."


def delay(medians: Medians) -> tuple[Drawing, str]:
    """Draw how long the newest output takes, from the median to the 99th percentile."""
    drawing = Drawing("Seconds until the newest output is there: p50 ○ to p99 ●")
    low = min((measures["delay_p50"] for measures in all_of(medians)), default=0.1)
    high = max((measures["delay_p99"] for measures in all_of(medians)), default=1)
    scale = Scale(low / 1.5, high, LEFT, RIGHT, is_log=True)
    findings = []
    ticks(drawing, scale)
    for name, by_contender in medians.items():
        panel(drawing, name)
        for seconds in scale.powers():
            x = scale.place(seconds)
            drawing.line((x, drawing.y), (x, drawing.y + ROW * len(NAMES)), "grid")
        for contender, measures, y in rows(drawing, by_contender):
            colour: Colour = "blue" if contender == BASE else "grey"
            first, last = (scale.place(measures[name]) for name in ("delay_p50", "delay_p99"))
            drawing.line((first, y), (last, y), colour, 3)
            drawing.dot(first, y, colour, is_hollow=True)
            drawing.dot(last, y, colour)
            drawing.text(last + 9, y, f"{measures['delay_p99']:.3g}")
        findings.append(f"{name} {compared(by_contender, 'delay_p99', ' s')}")
    ticks(drawing, scale)
    note(drawing, all_of(medians))
    return drawing, f"The 99th percentile of the delay with {BASE}: {'; '.join(findings)}."


def makespan(
    measured: Mapping[str, Measures], simulated: list[dict[str, Any]]
) -> tuple[Drawing, str]:
    """Draw how much longer than possible bursts take, by contender and by size."""
    drawing = Drawing("Makespan of a burst, over the least possible")
    workload = WORKLOADS["burst"]
    least = sum(upload.seconds for upload in workload.uploads()) / workload.bound
    ratios = {
        contender: measures | {"ratio": measures["makespan"] / least} if measures else {}
        for contender, measures in measured.items()
    }
    sizes = map(bursts.over_least, simulated)
    longest = max([*sizes, *(measures["ratio"] for measures in all_of({"burst": ratios}))])
    scale = Scale(0, longest, LEFT, RIGHT)
    drawing.y += SIZE
    possible = scale.place(1)
    drawing.text(possible, drawing.y - SIZE / 2, "least possible", "quiet", "middle")
    panel(drawing, f"measured: {workload.keys:,} uploads, {workload.bound} at a time")
    for contender, measures, y in rows(drawing, ratios):
        ratio_bar(drawing, scale, y, measures["ratio"], is_base=contender == BASE)
    drawing.line((possible, drawing.y - ROW * len(NAMES)), (possible, drawing.y), "hint")
    findings = []
    for limit, of_limit in groupby(simulated, key=itemgetter("concurrency")):
        panel(drawing, f"simulated: {BASE}, {limit:,} at a time")
        top = drawing.y
        for burst in of_limit:
            y, ratio = drawing.y + ROW / 2, bursts.over_least(burst)
            drawing.text(LEFT - 8, y, f"{burst['uploads']:,} uploads", anchor="end")
            ratio_bar(drawing, scale, y, ratio, is_base=True)
            drawing.y += ROW
            findings.append(f"{ratio:.2f} for {burst['uploads']:,} uploads, {limit:,} at a time")
        drawing.line((possible, top), (possible, drawing.y), "hint")
    note(drawing, measured.values())
    return drawing, (
        f"Makespan of a burst with {BASE}, over the least possible: measured"
        f" {compared(ratios, 'ratio')}; simulated {'; '.join(findings)}."
    )


def ratio_bar(drawing: Drawing, scale: Scale, y: float, ratio: float, is_base: bool) -> None:
    """Draw a ratio, and write it."""
    drawing.bar(LEFT, scale.place(ratio), y, "blue" if is_base else "grey")
    drawing.text(scale.place(ratio) + 6, y, f"{ratio:.2f}")


class Way(NamedTuple):
    """A way to process events, what it promises, and its bill."""

    name: str
    promise: str
    colour: Colour
    bill: Callable[[Workload], Bill]

    def dollars(self, events: float) -> float:
        """Compute what a month with so many events costs."""
        return self.bill(Workload(events, OVERWRITES)).dollars


OVERWRITES = 0.1  # as in docs/cost.md
EVENTS = [10 ** (quarters / 4) for quarters in range(16, 33)]  # a month, from 10,000 on


def product_bill(log_level: str, work: Workload) -> Bill:
    """Compute a month's bill of the product at a level of its log."""
    return bill_of(policy("latest-wins"), replace(work, log_level=log_level))


def ways() -> list[Way]:
    """List the ways, the dearest first."""
    bills = {way.name: partial(bill_of_contender, way) for way in contenders()}
    return [
        Way(
            f"{BASE}, ALL", "all, and each state's data", "vermilion", partial(product_bill, "ALL")
        ),
        Way(f"{BASE}, ERROR", "all of the promise", "blue", partial(product_bill, "ERROR")),
        Way("fifo-fence", "once, one at a time", "purple", bills["fifo-fence"]),
        Way("sqs-fence", "never stale, faults heal", "green", bills["sqs-fence"]),
        Way("fenced-function", "never stale", "ink", bills["fenced-function"]),
        Way("function-alone", "only the work", "grey", bills["function-alone"]),
    ]


def months() -> tuple[Drawing, str]:
    """Draw what a month costs, over its events, for each promise."""
    drawing = Drawing("Dollars a month, over events a month")
    dearest, *_, cheapest = ways()
    low, high = cheapest.dollars(EVENTS[0]), dearest.dollars(EVENTS[-1])
    top, bottom = drawing.y, drawing.y + 300
    across = Scale(EVENTS[0], EVENTS[-1], 72, 330, is_log=True)
    up = Scale(low / 1.5, high * 1.5, bottom, top, is_log=True)
    for events in across.powers():
        x = across.place(events)
        drawing.line((x, top), (x, bottom), "grid")
        drawing.text(x, bottom + SIZE, f"{events / 1e6:g}M", "quiet", "middle")
    for dollars in up.powers():
        y = up.place(dollars)
        drawing.line((across.first, y), (across.last, y), "grid")
        drawing.text(across.first - 8, y, f"{dollars:,g}", "quiet", "end")
    beside, height = across.last + 30, top + SIZE / 2
    for way in ways():
        points = [(across.place(events), up.place(way.dollars(events))) for events in EVENTS]
        drawing.curve(points, way.colour)
        drawing.line(points[-1], (beside - 10, height), way.colour)
        drawing.dot(beside - 10, height, way.colour)
        drawing.text(beside, height, f"{way.name} {way.dollars(EVENTS[-1]):,.0f}", "strong")
        drawing.text(beside, height + 1.2 * SIZE, way.promise, "quiet")
        height += 2.9 * SIZE
    drawing.y = bottom + 2 * SIZE
    drawing.paragraph(
        f"Computed: the function takes {Workload().process_ms / 1000:g} s, and {OVERWRITES:.0%} of"
        " the events find their key locked."
    )
    bills = [
        f"{way.name} {way.dollars(10_000):,.2f} and {way.dollars(1_000_000):,.2f}" for way in ways()
    ]
    return drawing, f"Dollars for 10,000 and for a million events a month: {'; '.join(bills)}."


def panel(drawing: Drawing, name: str) -> None:
    """Begin a part of a drawing; of a workload, with what it is about."""
    drawing.y += 0.6 * SIZE
    about = WORKLOADS[name].about.partition(",")[0] if name in WORKLOADS else ""
    drawing.text(MARGIN, drawing.y + SIZE / 2, f"{name}: {about}" if about else name, "strong")
    drawing.y += 1.6 * SIZE


def rows(
    drawing: Drawing, by_contender: Mapping[str, Measures]
) -> Iterator[tuple[str, Measures, float]]:
    """Write the contenders below each other, and give those that were measured, and where."""
    for contender in NAMES:
        measures, y = by_contender[contender], drawing.y + ROW / 2
        mark = results.OLD if measures and measures["is_old"] else ""
        drawing.text(LEFT - 8, y, contender + mark, "strong" * (contender == BASE), "end")
        if measures:
            yield contender, measures, y
        else:
            drawing.text(LEFT + 6, y, "not measured", "quiet")
        drawing.y += ROW


def ticks(drawing: Drawing, scale: Scale) -> None:
    """Write the powers of ten at their places."""
    drawing.y += 0.4 * SIZE
    for power in scale.powers():
        drawing.text(scale.place(power), drawing.y + SIZE / 2, f"{power:g} s", "quiet", "middle")
    drawing.y += SIZE


def note(drawing: Drawing, measured: Iterable[Measures], more: str = "") -> None:
    """Explain the mark of older code, if there is one, and whatever else."""
    is_old = any(measures["is_old"] for measures in measured if measures)
    drawing.y += SIZE / 2
    explained = f"{results.OLD.strip()} measured with older code" if is_old else ""
    drawing.paragraph("; ".join(filter(None, (explained, more))))


def compared(by_contender: Mapping[str, Measures], measure: str, unit: str = "") -> str:
    """Tell a measure of the product, and the least and the most of the others."""
    numbers = {name: measures[measure] for name, measures in by_contender.items() if measures}
    own = f"{numbers.pop(BASE):.2f}{unit}" if BASE in numbers else "not measured"
    if not numbers:
        return own
    return f"{own} (others {min(numbers.values()):.2f} to {max(numbers.values()):.2f})"


def all_of(medians: Medians) -> list[Measures]:
    """List the measures of all contenders in all workloads, as far as there are any."""
    return [measures for by in medians.values() for measures in by.values() if measures]
