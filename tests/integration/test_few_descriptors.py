"""The claim that the limit of open files which a coordinator requires is enough for all that it does with its members:
real processes, forty members, models that travel in slices and are mixed from files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from coordinator.runs import FEWEST_STRANGERS, needed_files
from protocol.limits import SLICE_BYTES
from tests.support.federation import WAIT_S, fields, running
from tests.support.few_files import LIMIT
from tests.support.peer import ThreadedPeer
from tests.support.processes import ServeProcess, config_file
from tests.support.tiny_models import drift, tiny_model

NAMES = tuple(f"m{number:02d}" for number in range(40))


@pytest.mark.slow
def test_forty_members_with_large_models_finish_under_the_least_limit_of_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connect at once, so that some are cut as strangers first and come again."""
    least = needed_files(len(NAMES)) + 2 * FEWEST_STRANGERS
    model = tiny_model(body=SLICE_BYTES // 4 + 1000)
    chosen = fields(
        tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", rounds=2,
        members={"names": NAMES, "at_least": len(NAMES)}, network={"endpoint": "tcp://127.0.0.1:*"},
        pace={"heartbeat_s": 1.0, "dead_after_s": 120.0, "linger_s": 5.0},
    )  # fmt: skip
    config = str(config_file(tmp_path / "run.toml", chosen))
    monkeypatch.setenv(LIMIT, str(least - 1))
    refused = ServeProcess("serve", "--config", config, module="tests.support.few_files", log=tmp_path / "refused")
    assert refused.wait() == 2
    assert f"expected at least {least}" in (tmp_path / "refused").read_text()
    monkeypatch.setenv(LIMIT, str(least))
    process = ServeProcess("serve", "--config", config, module="tests.support.few_files", log=tmp_path / "log")
    try:
        endpoint = process.ready()
        peers = [ThreadedPeer(endpoint, model.hello(name), work=partial(drift, name)) for name in NAMES]
        with running(peers):
            assert all(peer.ended.wait(4 * WAIT_S) for peer in peers), (tmp_path / "log").read_text()[-2000:]
            assert process.wait() == 0
    finally:
        process.close()
    log = (tmp_path / "log").read_text()
    assert not [word for word in ("disk.failed", "work.failed", "Too many") if word in log]
