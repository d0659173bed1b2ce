"""The function's settings, which the template puts into its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Configuration:
    """The function's settings."""

    output_bucket: str
    # Days for which the key table keeps the record of an object key after its last event.
    record_retention_days: int
    handles_deletions: bool  # whether the output of a deleted source is deleted
    maximum_bytes: int  # size of the largest object that is read
    maximum_pixels: int  # pixels of the largest image that is decoded, all frames together
    # For the demonstration: the end of the objects that are slow. If empty, all are.
    slow_mark: bytes
    slow_seconds: float  # for the demonstration: how many seconds longer a slow object takes

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Configuration:
        """Read the settings.

        Parameters
        ----------
        environment : Mapping[str, str]
            The environment variables: the names of the attributes, in capitals.

        Raises
        ------
        KeyError
            A variable is not set.
        ValueError
            A variable that must be a number is not one.
        """
        return cls(
            output_bucket=environment["OUTPUT_BUCKET"],
            record_retention_days=int(environment["RECORD_RETENTION_DAYS"]),
            handles_deletions=environment["HANDLES_DELETIONS"] == "true",
            maximum_bytes=int(environment["MAXIMUM_BYTES"]),
            maximum_pixels=int(environment["MAXIMUM_PIXELS"]),
            slow_mark=environment["SLOW_MARK"].encode(),
            slow_seconds=float(environment["SLOW_SECONDS"]),
        )
