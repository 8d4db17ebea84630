"""The README's picture shows what the program shows."""

import re

import pytest

from tests.picture import PICTURE, take


def texts(svg: str) -> list[str]:
    """Return the words of a picture; how rich draws them may change."""
    return re.findall(r"<text [^>]*>(.*?)</text>", svg)


@pytest.mark.long
def test_the_picture_is_fresh() -> None:
    assert texts(take()) == texts(PICTURE.read_text(encoding="utf-8")), "run `qk picture`"
