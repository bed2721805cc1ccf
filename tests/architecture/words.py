"""What no file of the project may say: hosts of package registries, and talk about how the project came to be.

The forbidden words are written in pieces, so that this file does not contain them itself.
"""

from __future__ import annotations

import re

_HOSTS = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("download.pytorch", "org"),
    ("anaconda", "org"),
    ("conda-forge", "org"),
    ("npmjs", "com"),
    ("npmjs", "org"),
    ("ghcr", "io"),
    ("docker", "io"),
)
REGISTRY_HOST = re.compile("|".join(re.escape(".".join(host)) for host in _HOSTS), re.IGNORECASE)

_ABOUT_US = (
    r"\bissue" + r"s? #?\d",
    r"\bissue" + r" #",
    r"\b(DES" + r"IGN|STY" + r"LE|CONT" + r"RACTS|refer" + r"ence)\.md\b",
    r"(\(|\bsee |\bdecision )D" + r"\d{1,2}\b",
    r"/wo" + r"rk/(main|shared)",
    r"/tmp/" + r"exp\b",
    r"shared/" + r"seeds",
)
SELF_TALK = re.compile("|".join(_ABOUT_US))

METAPHOR = re.compile(
    r"\b(rooms?|houses?|greet\w*|speaks?|spoken|led|li[fv]es?|lulls?|desks?|stor(?:y|ies)|retell\w*)\b", re.IGNORECASE
)
"""Words that a command's help does without: packages, hello, sends, running, process."""


def forbidden_words(path: str, text: str, pattern: re.Pattern[str]) -> list[str]:
    """Every match of the pattern, with its line."""
    if not pattern.search(text):  # most files, some of them megabytes long
        return []
    lines = enumerate(text.splitlines(), start=1)
    return [f"{path}:{number}: {found.group()}" for number, line in lines for found in pattern.finditer(line)]
