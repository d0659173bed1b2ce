"""The demonstration's parts that need no stack: what an output shows, what a run costs."""

from __future__ import annotations

from io import BytesIO

import click
import pytest
from PIL import Image

from inorder import deployed_demo
from inorder.aws.stack import Stack
from inorder.demo import _inverse, choices, shows
from inorder.deployed_demo import estimate
from inorder.pictures import PicturePair, own_pairs
from inorder.policies import policy

JPEG, PNG, GIF, WEBP = own_pairs(4)


def encoded_otherwise(content: bytes) -> bytes:
    """Encode a picture with other settings, as another processor's encoder may."""
    file = BytesIO()
    with Image.open(BytesIO(content)) as picture:
        picture.save(file, picture.format, quality=70, compress_level=1)
    assert file.getvalue() != content
    return file.getvalue()


@pytest.mark.parametrize("pair", [JPEG, PNG, WEBP])
def test_an_output_is_known_by_its_colours_if_its_bytes_differ(pair: PicturePair) -> None:
    output = encoded_otherwise(_inverse(pair.new))
    assert shows(output, pair.new)
    assert not shows(output, pair.old)


def test_an_output_with_a_stamp_shows_its_picture() -> None:
    assert shows(_inverse(GIF.new) + b"stamp", GIF.new)


def test_what_is_no_picture_or_another_one_shows_nothing() -> None:
    part = BytesIO()
    with Image.open(BytesIO(_inverse(PNG.new))) as picture:
        picture.crop((0, 0, 24, 18)).save(part, "PNG")
    for output in (b"", b"no picture", part.getvalue(), _inverse(JPEG.new)):
        assert not shows(output, PNG.new)


def test_the_requests_of_each_kind_are_counted() -> None:
    numbers = [number for number, _ in estimate(10, policy("latest-wins"), 1769)]
    assert numbers == [60, 130, 40, 60, 40, 140, 60]


def test_a_traced_execution_costs_a_trace_more() -> None:
    without, traced = (estimate(10, policy("latest-wins"), 1769, on) for on in (False, True))
    [(one, other)] = [
        (one, other) for (_, one), (_, other) in zip(traced, without, strict=True) if one != other
    ]
    assert one.dollars - other.dollars == pytest.approx(5e-6)
    assert one.unit == f"{other.unit} and a trace"


def test_deletions_cost_nothing_if_the_policy_ignores_them() -> None:
    numbers = [number for number, _ in estimate(10, policy("first-wins"), 1769)]
    assert numbers[2:4] == [20, 40]


@pytest.mark.parametrize("name", [*choices(), "uncoordinated"])
def test_a_hundred_keys_cost_a_few_cents(name: str) -> None:
    cheap, dear = (
        sum(number * price.dollars for number, price in estimate(100, policy(name), memory))
        for memory in (1769, 10240)
    )
    assert 0.01 < cheap < dear < 0.2


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"Policy": "latest-wins", "WorkFunctionArn": "arn"}, "function of its own"),
        ({"Policy": "mine"}, "the policy 'mine', unknown here"),
        ({}, "the policy '', unknown here"),
        ({"Policy": "content-hash"}, "makes no pictures"),
    ],
)
def test_a_stack_without_known_pictures_is_refused(
    parameters: dict[str, str], complaint: str
) -> None:
    stack = Stack("name", "in", "out", "table", "arn", "url", "function", parameters)
    with pytest.raises(click.ClickException, match=complaint):
        deployed_demo.policy_of(stack)
