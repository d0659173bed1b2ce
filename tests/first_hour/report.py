"""The report: a row for each question, without anything that names the account."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.first_hour.questions import QUESTIONS, Answer, Question, Verdict

# IDs of accounts and KMS keys, access keys, addresses, and the random ends of physical names.
PRIVATE = {
    r"\b(key/)[0-9a-f-]{36}": r"\1KEY",
    r"(source-ip-address\W+)[\da-fA-F.:]+": r"\1ADDRESS",
    r"(?<![0-9A-Za-z])\d{12}(?![0-9A-Za-z])": "ACCOUNT",
    r"\b(AKIA|ASIA)[A-Z0-9]{16}\b": "ACCESS_KEY",
    r"\binorder-trial-[0-9a-f]{8}": "TRIAL",
    r"(TRIAL-\w+)-[A-Za-z0-9]{6,24}\b": r"\1",
    r"\b(arn:aws:(?:iam|sts)::ACCOUNT:)[\w+=,.@/-]+": r"\1PRINCIPAL",
}


def without_names(text: str) -> str:
    """Replace what names an account, a principal or a physical resource."""
    for pattern, replacement in PRIVATE.items():
        text = re.sub(pattern, replacement, text)
    return text


class Report:
    """The answers, which are written after each one.

    A run that is resumed keeps those of the run before, except where a question failed.
    """

    def __init__(self, folder: Path, region: str, resume: bool = False) -> None:
        self.json, self.markdown = folder / "aws-report.json", folder / "aws-report.md"
        self.region, self.began = region, datetime.now(UTC)
        self.rows: dict[str, dict[str, Any]] = {}
        self.left: list[str] | None = None  # what could not be removed, once that was tried
        if resume and self.json.exists():
            rows = json.loads(self.json.read_text())["rows"]
            kept = {Verdict.EXPECTED, Verdict.OTHERWISE}
            self.rows = {name: row for name, row in rows.items() if row["verdict"] in kept}
            self.rows.pop("notifications", None)  # a new bucket's have to be waited for again

    def add(self, question: Question, answer: Answer) -> None:
        """Write an answer."""
        told = {"asked": question.asked, "expected": question.expected, **asdict(answer)}
        self.rows[question.name] = told
        self.write()

    def write(self) -> None:
        """Write both files."""
        self.json.parent.mkdir(parents=True, exist_ok=True)
        began = f"{self.began:%Y-%m-%d %H:%M} UTC"
        whole = {"began": began, "region": self.region, "rows": self.rows, "left": self.left}
        self.json.write_text(without_names(json.dumps(whole, indent=1, default=str)) + "\n")
        given = [row["verdict"] for row in self.rows.values()]
        counted = ", ".join(f"{given.count(each)} {each}" for each in dict.fromkeys(given))
        lines = ["# What AWS answered", "", f"{began}, {self.region}.", ""]
        lines += [f"{len(self.rows)} of {len(QUESTIONS)} questions: {counted}.", ""]
        lines += ["| | asked | expected | observed |", "| --- | --- | --- | --- |"]
        for row in self.rows.values():
            told = (row["verdict"], row["asked"], row["expected"], row["observed"])
            lines.append(f"| {' | '.join(map(_cell, told))} |")
        if self.left is not None:
            lines += ["", "Everything was removed." if not self.left else "**Not removed:**"]
            lines += [f"- {each}" for each in self.left]
        self.markdown.write_text(without_names("\n".join(lines)) + "\n")

    @property
    def is_good(self) -> bool:
        """Whether everything was as expected, and is removed."""
        good = {Verdict.EXPECTED, Verdict.NOT_ASKED}
        return not self.left and all(row["verdict"] in good for row in self.rows.values())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
