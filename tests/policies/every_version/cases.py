"""The cases of every-version: the states of latest-wins, with another fence."""

from dataclasses import replace

from tests.policies.latest_wins.cases import CASES as LATEST_WINS

STORIES = [
    "A1 1=Processed 1=Duplicate B2 2=Processed 1=Superseded is=AB",
    "a1 1=Parked A2 2=Processed 1=Superseded is=A",
    "A1 1=Processed -2 2=Processed 1=Superseded is=",
    "A1 -2 2=Processed 1=Superseded is=",
    "empty=Parked list=Parked no-key=Parked",
]
CASES = replace(LATEST_WINS, stories=STORIES)
