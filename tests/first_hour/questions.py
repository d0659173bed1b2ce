"""Questions and their answers: what is asked, what is expected and why, and what was seen."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.first_hour.trial import Trial


class Verdict(StrEnum):
    """What an answer says about the expectation."""

    EXPECTED = "as expected"
    OTHERWISE = "OTHERWISE"
    FAILED = "NOT ANSWERED"  # the question itself failed
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Answer:
    """What was seen, with the raw evidence."""

    verdict: Verdict
    observed: str
    evidence: Any = None


def seen(is_expected: bool, observed: str, evidence: Any = None) -> Answer:
    """Give the answer to a question that could be asked."""
    return Answer(Verdict.EXPECTED if is_expected else Verdict.OTHERWISE, observed, evidence)


@dataclass(frozen=True)
class Question:
    """A question to an AWS.

    `not_local` says why the local AWS is not asked; empty if it is. One question deploys the stack,
    which others need.
    """

    asked: str
    expected: str
    ask: Callable[[Trial], Answer]
    not_local: str
    deploys: bool

    @property
    def name(self) -> str:
        """Its name in the report and for ``--only``."""
        return self.ask.__name__.replace("_", "-")

    def answer(self, trial: Trial) -> Answer:
        """Ask it. A question that fails is an answer, too, so that the others are asked."""
        if trial.local and self.not_local:
            return Answer(Verdict.NOT_ASKED, f"On the local AWS: {self.not_local}")
        if trial.is_deployed is False:
            return Answer(Verdict.NOT_ASKED, "The stack was not deployed.")
        try:
            return self.ask(trial)
        except Exception as error:
            told = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
            return Answer(Verdict.FAILED, told, traceback.format_exc())


QUESTIONS: list[Question] = []
Ask = Callable[["Trial"], Answer]


def question(
    asked: str, expected: str, *, not_local: str = "", deploys: bool = False
) -> Callable[[Ask], Ask]:
    """Make a function a question, which is asked after those before it."""

    def register(ask: Ask) -> Ask:
        QUESTIONS.append(Question(asked, expected, ask, not_local, deploys))
        return ask

    return register
