"""Where each event was at each time, from the histories of the executions, and a plot of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from inorder.aws.executions import Entry, Execution, Listed, LocalStateMachine, s3_object

DONE, IN_PROGRESS, WAITING = "done", "in progress", "waiting"
RETRY_QUEUE, DEAD = "in the retry queue", "its execution has died"
PLACES = [DONE, IN_PROGRESS, WAITING, RETRY_QUEUE, DEAD]
COLOURS = ["#d9d9d9", "#009e73", "#56b4e9", "#e69f00", "#d55e00"]  # for colour-blind people, too
FINISHED = {"Processed", "Duplicate", "Superseded", "Parked"}
THROTTLED = "Lambda.TooManyRequestsException"
Outage = tuple[float, float, str]


class TimedStateMachine(LocalStateMachine):
    """The state machines of a stack, one for each policy that it has had.

    It starts executions of the present one, and knows those of all.

    Attributes
    ----------
    times : dict
        When each entry of an execution's history was made, and the state that it names.
    errors : dict
        The errors of an execution's Tasks.
    invocations : dict
        How often an execution has invoked a function, throttled invocations not included.
    """

    def __init__(self, client: Any, arn: str) -> None:
        super().__init__(client, arn)
        self._machines: dict[str, LocalStateMachine] = {}
        self.times: dict[str, list[tuple[float, str]]] = {}
        self.errors: dict[str, Counter[str]] = {}
        self.invocations: dict[str, int] = {}
        self.follow(arn)

    def follow(self, arn: str) -> None:
        """Start further executions of another state machine."""
        self._machines.setdefault(arn, LocalStateMachine(self.client, arn))
        self.arn = arn

    def arns(self, status: str | None = None) -> list[str]:
        """List the ARNs of all executions, or of those in one status."""
        return [arn for each in list(self._machines.values()) for arn in each.arns(status)]

    def _listed(self, since: datetime | None, few: bool = False) -> Iterator[Listed]:
        for each in list(self._machines.values()):
            yield from each._listed(since, few)

    def entries(self, arn: str) -> list[Entry]:
        """Read the history of an execution."""
        found, times, errors, invocations = [], [], Counter[str](), 0
        pages = self.client.get_paginator("get_execution_history").paginate(executionArn=arn)
        for event in (event for page in pages for event in page["events"]):
            details: dict[str, Any]
            details = next((v for k, v in event.items() if k.endswith("Details")), {})
            found.append(Entry(event["type"], details))
            times.append((event["timestamp"].timestamp(), details.get("name", "")))
            if event["type"] == "TaskFailed":
                errors[details["error"]] += 1
            invocations += "lambda:invoke" in details.get("resource", "") and (
                event["type"] == "TaskScheduled"
            )
        self.times[arn], self.errors[arn] = times, errors
        self.invocations[arn] = invocations - errors[THROTTLED]
        return found


@dataclass(frozen=True)
class Run:
    """When an execution began, invoked the function for the first time, and ended."""

    began: float
    worked: float
    ended: float
    outcome: str


class Backlog:
    """The events and their executions.

    Parameters
    ----------
    machine : TimedStateMachine
        It has read the executions.
    executions : iterable of Execution
        All have ended.
    """

    def __init__(self, machine: TimedStateMachine, executions: Iterable[Execution]) -> None:
        self._runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
        for each in executions:
            times = machine.times[each.arn]
            worked = next((time for time, name in times if name == "Invert Image"), times[-1][0])
            run = Run(times[0][0], worked, times[-1][0], str(each.outcome or each.status))
            described = s3_object(each.event)
            self._runs[described["key"], described["sequencer"]].append(run)
        runs = [run for of_event in self._runs.values() for run in of_event]
        self._superseded = {
            (key, sequencer): min(
                (
                    run.ended
                    for (other, newer), of_event in self._runs.items()
                    for run in of_event
                    if other == key and newer > sequencer and run.outcome == "Processed"
                ),
                default=float("inf"),
            )
            for key, sequencer in self._runs
        }
        self.began = min(run.began for run in runs)
        self.ended = max(run.ended for run in runs)

    def count(self, time: float) -> list[int]:
        """Count the events in each of `PLACES`."""
        places = [_place(runs, time, self._superseded[event]) for event, runs in self._runs.items()]
        return [places.count(place) for place in PLACES]

    def times(self, step: float = 0.5) -> list[float]:
        """Give times from the beginning to a moment after the end."""
        return [self.began + step * n for n in range(int((self.ended - self.began) / step) + 3)]

    def plot(self, file: Path, title: str, outages: Sequence[Outage]) -> None:
        """Write a picture, with the outages as bars above it."""
        times = self.times()
        counts = [self.count(time) for time in times]
        seconds = [time - self.began for time in times]
        figure = Figure(figsize=(11, 6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 3])
        names = sorted({name for *_, name in outages})
        for start, end, name in outages:
            above.barh(names.index(name), end - start, left=start - self.began, color="#888888")
        above.set_yticks(range(len(names)), names, fontsize=8)
        above.set_title(title)
        columns = list(zip(*counts, strict=True))
        below.stackplot(seconds, columns[1:], labels=PLACES[1:], colors=COLOURS[1:])
        below.set_ylabel("events that are not done")
        below.set_xlabel("seconds")
        done = below.twinx()
        done.plot(seconds, columns[0], color="#555555", linestyle="--", label=DONE)
        done.set_ylabel("events that are done")
        done.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=len(PLACES))
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=110)


def _place(runs: list[Run], time: float, superseded: float) -> str:
    """Tell where an event is; empty before it has arrived.

    If its execution has died, the event is done once a newer one of its key has been processed.
    """
    begun = [run for run in runs if run.began <= time]
    over = [run for run in begun if run.ended <= time]
    if not begun:
        return ""
    if any(run.outcome in FINISHED for run in over):
        return DONE
    if len(over) < len(begun):
        return IN_PROGRESS if any(run.worked <= time < run.ended for run in begun) else WAITING
    last = max(over, key=lambda run: run.ended)
    if last.outcome == "Retrying":
        return RETRY_QUEUE
    return DONE if superseded <= time else DEAD
