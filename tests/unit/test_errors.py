"""The error for wrong input: one line that names field, value and remedy; and how a command ends on it."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel, model_serializer

from fedap_core.errors import InvalidInput, exit_on_invalid_input, in_words, parse_pairs, unknown_name


def test_the_message_names_field_value_expectation_and_remedy() -> None:
    assert str(InvalidInput("rounds", 0, "at least 1")) == "rounds: got 0, expected at least 1"
    error = InvalidInput("data", "nowhere", "a folder", "Make it first.")
    assert str(error) == "data: got nowhere, expected a folder. Make it first."
    assert (error.field, error.got, error.expected, error.fix) == ("data", "nowhere", "a folder", "Make it first.")
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(("length", "shown"), [(120, 120), (121, 120), (100_000, 120)])
def test_long_values_are_cut_so_that_they_can_still_be_recognised(length: int, shown: int) -> None:
    message = str(InvalidInput("name", "z" * length, "a name"))
    assert message.count("z") == (length if length <= 120 else shown - 1)
    assert ("…" in message) is (length > 120)


def test_the_message_is_one_line_whatever_the_value_and_the_remedy_hold() -> None:
    """A matrix prints in several lines, and so do the errors of other libraries."""
    error = InvalidInput("W", np.eye(3), "rows that\nsum to 1", "first\n  second")
    assert len(str(error).splitlines()) == 1
    assert str(error).endswith("expected rows that sum to 1. first second")


def test_an_unknown_name_is_answered_with_the_known_and_the_nearest() -> None:
    near = unknown_name("algorithm", "fedvag", ["fedbn", "fedavg"])
    assert str(near) == "algorithm: got fedvag, expected one of fedavg, fedbn. Did you mean 'fedavg'?"
    assert str(unknown_name("algorithm", "zzz", ["fedavg"])) == "algorithm: got zzz, expected one of fedavg"


def test_pairs_become_a_mapping_and_values_may_hold_equals_signs() -> None:
    assert parse_pairs("fedap", ["self_weight=0.5", "note=a=b", "empty="]) == {
        "self_weight": "0.5", "note": "a=b", "empty": "",
    }  # fmt: skip


@pytest.mark.parametrize("pair", ["self_weight", "=0.5", ""])
def test_what_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(InvalidInput, match=r"fedap: got .*expected key=value"):
        parse_pairs("fedap", [pair])


def _refuse() -> None:
    raise InvalidInput("rounds", 0, "at least 1")


def _interrupt() -> None:
    raise KeyboardInterrupt


class _Settings(BaseModel):
    @model_serializer
    def _interrupted(self) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        (_refuse, 2, "error: rounds: got 0, expected at least 1\n"),
        (_interrupt, 130, "interrupted\n"),
        (_Settings().model_dump, 130, "interrupted\n"),
    ],
)
def test_commands_end_with_a_line_and_a_code(
    command: object, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(command)
    with pytest.raises(SystemExit) as ended:
        exit_on_invalid_input(command)
    assert ended.value.code == code
    assert capsys.readouterr() == ("", line)


def test_a_path_that_cannot_be_used_is_wrong_input_and_a_failing_disk_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        exit_on_invalid_input(lambda: (tmp_path / "file" / "below").mkdir())
    assert ended.value.code == 2
    out, line = capsys.readouterr()
    assert (out, line) == (
        "", f"error: path: got {tmp_path}/file/below, expected one that can be used here. Not a directory.\n",
    )  # fmt: skip

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error", "disk")

    with pytest.raises(OSError, match="Input/output"):
        exit_on_invalid_input(fail)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "disk: got standard output, or a file that was being written",
        ),
        (OSError(errno.EDQUOT, "Quota exceeded", "a.key"), "disk: got a.key, expected a disk with free space. Quota"),
        (
            OSError(errno.ENAMETOOLONG, "File name too long", "x"),
            "path: got x, expected one that can be used here. File",
        ),
        (RuntimeError("Could not determine home directory."), "path: got one that begins with ~"),
    ],
)
def test_what_the_machine_lacks_is_one_line(error: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        exit_on_invalid_input(fail)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {line}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError(errno.EACCES, "a bug without a path")])
def test_other_errors_of_the_system_escape(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match="a bug"):
        exit_on_invalid_input(fail)


@pytest.mark.parametrize(
    ("complaint", "described", "expected"),
    [
        ("Input should be greater than 0", None, "greater than 0"),
        ("Input should be 'f32' or 'f16'", "How weights are encoded.", "'f32' or 'f16'"),
        ("String should match pattern '^[a-z]$'", "Name of the run: a-z.", "name of the run: a-z"),
        ("String should match pattern '^[A-Z]$'", None, "string should match pattern '^[A-Z]$'"),
    ],
)
def test_complaints_of_the_checker_become_what_was_expected(
    complaint: str, described: str | None, expected: str
) -> None:
    assert in_words(complaint, described) == expected


def test_a_path_is_shown_as_it_is_written() -> None:
    assert str(InvalidInput("model file", Path("a/b"), "a file")) == "model file: got a/b, expected a file"


def test_a_command_that_succeeds_just_returns_and_our_own_faults_escape(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[int] = []
    exit_on_invalid_input(lambda: done.append(1))
    assert (done, capsys.readouterr()) == ([1], ("", ""))
    with pytest.raises(ZeroDivisionError):
        exit_on_invalid_input(lambda: 1 // 0)
