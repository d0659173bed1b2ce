"""What the template tells the function through its environment, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Configuration:
    """The function's settings.

    Attributes
    ----------
    output_bucket : str
        Where the inverted images go.
    record_retention_days : int
        Days for which the key table remembers an object key after its last event.
    handles_deletions : bool
        Whether the output of a source that is deleted is removed.
    maximum_bytes : int
        Size of the largest object that is read.
    maximum_pixels : int
        Pixels of the largest image that is decoded.
    slow_probability : float
        For the demonstration: share of the invocations that are slow, 0 to 1.
    slow_seconds : float
        For the demonstration: seconds that a slow invocation takes longer.
    """

    output_bucket: str
    record_retention_days: int
    handles_deletions: bool
    maximum_bytes: int
    maximum_pixels: int
    slow_probability: float
    slow_seconds: float

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Configuration:
        """Read the settings.

        Parameters
        ----------
        environment : Mapping[str, str]
            The function's environment variables, named as the attributes are, in capitals.

        Raises
        ------
        KeyError
            A variable is not set.
        ValueError
            A variable is no number where one is needed.
        """
        return cls(
            output_bucket=environment["OUTPUT_BUCKET"],
            record_retention_days=int(environment["RECORD_RETENTION_DAYS"]),
            handles_deletions=environment["HANDLES_DELETIONS"] == "true",
            maximum_bytes=int(environment["MAXIMUM_BYTES"]),
            maximum_pixels=int(environment["MAXIMUM_PIXELS"]),
            slow_probability=float(environment["SLOW_PROBABILITY"]),
            slow_seconds=float(environment["SLOW_SECONDS"]),
        )
