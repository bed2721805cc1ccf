"""The commands that a document shows, and whether they exist: words, sub-commands and flags of shell code blocks.

Reads text and command trees; runs nothing. A word that is neither a sub-command nor a flag is an argument and is not
judged.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_FENCE = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELLS = frozenset({"", "bash", "sh", "shell", "console"})
_SEPARATORS = frozenset({"|", "||", "&&", ";", "&", "(", ")"})
_ASSIGNMENT = re.compile(r"^\w+=")


@dataclass(frozen=True, kw_only=True)
class CommandTree:
    """A command: the flags it takes, those of them that a value follows, and its sub-commands."""

    flags: frozenset[str]
    valued: frozenset[str] = frozenset()
    children: Mapping[str, CommandTree]


def shown_commands(document: str) -> Iterator[list[str]]:
    """The words of every command in the shell code blocks; comments, prompts and assignments in front are dropped."""
    for language, block in _FENCE.findall(document):
        if language in _SHELLS:
            for line in block.replace("\\\n", " ").splitlines():
                if language == "console" and not line.startswith("$ "):
                    continue  # what a program printed
                yield from _commands_of_line(line.removeprefix("$ "))


def _commands_of_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in _SEPARATORS:
            while words and _ASSIGNMENT.match(words[0]):
                words = words[1:]
            if words:
                yield words
            words = []
        else:
            words.append(word)


def command_faults(
    words: list[str], *, trees: Mapping[str, CommandTree], file_exists: Callable[[str], bool]
) -> list[str]:
    """What does not exist in one shown command. Only the project's own commands and scripts are judged."""
    program, shown = words[0], " ".join(words)
    if program.startswith("./"):
        return [] if file_exists(program) else [f"{shown}: there is no {program}"]
    name = program.rpartition("/")[2]
    if not name.startswith("fedap-"):
        return []
    if name not in trees:
        return [f"{shown}: there is no command {name}"]
    return [f"{shown}: {fault}" for fault in _tree_faults(words[1:], trees[name])]


def _tree_faults(words: list[str], tree: CommandTree) -> Iterator[str]:
    remaining = iter(words)
    for word in remaining:
        flag = word.partition("=")[0]
        if flag.strip("-") and flag.startswith("-") and not re.match(r"-\d", flag):
            if flag not in tree.flags and flag != "--help":
                yield f"no flag {flag}"
                return  # whether the next word is its value, nobody knows
            if flag in tree.valued and flag == word:
                next(remaining, None)
        elif tree.children:
            if word not in tree.children:
                yield f"no sub-command {word}"
                return
            tree = tree.children[word]
