"""What stands in the file: every client, only what ran, nothing from a network, and no name that becomes markup."""

from __future__ import annotations

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.lab import app
from scripts.report.page import write_report
from tests.architecture.sources import ROOT
from tests.support.report_runs import CLIENTS, DISTANCES, WEIGHTS, write_comparison, write_run

VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})
MARKUP_NAME = '<script>alert("x")</script>'


class Page(HTMLParser):
    """Reads a page: that tags balance, which texts, ids and links it has, what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"{tag} is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value is not None:
                self.ids.append(value)
            if name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in ("src", "href", "srcset", "action") and not (value or "").startswith("data:"):
                self.loads.append(f"{tag} {value}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def page_of(folder: Path) -> tuple[str, Page]:
    text = write_report([folder], folder / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    return page_of(write_comparison(tmp_path_factory.mktemp("runs")))


def test_tags_balance_and_ids_are_unique(written: tuple[str, Page]) -> None:
    _, page = written
    assert page.faults == []
    assert len(page.ids) == len(set(page.ids))


def test_file_loads_nothing_and_names_no_address(written: tuple[str, Page]) -> None:
    text, page = written
    assert page.loads == []
    assert re.findall(r"https?://|@import|url\(", text) == []


def test_every_client_has_a_page_and_every_link_leads_somewhere(written: tuple[str, Page]) -> None:
    _, page = written
    assert [one for one in page.ids if one.startswith("client-") and not one.endswith("-title")] == [
        "client-ward-1",
        "client-ward-2",
        "client-ward-10",
    ]
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert all(link.startswith("#") for link in page.links)


def test_only_algorithms_that_ran_are_shown(written: tuple[str, Page]) -> None:
    text, page = written
    body = text[text.index("<main>") : text.index("<footer>")]
    assert all(name in page.text for name in ("Base", "FedAvg", "FedAP"))
    assert not re.search(r"FedBN|FedProx|FedPer|d-FedAP|f-FedAP", body)


def test_figures_of_the_runs_stand_in_the_page(written: tuple[str, Page]) -> None:
    """FedAP: mean 81, worst 70; bytes of a participant 2 rounds x 3,000 = 6 kB; a round takes 1.5 s; ward-1 takes 0.4
    from ward-2; confusions: 10 of 90 well taken for sick at ward-1."""
    _, page = written
    wanted = ("81.00", "70.00", "6.0 kB", "1.50 s", "takes 0.4 from ward-2", "well taken for sick: 10")
    assert [words for words in wanted if words not in page.text] == []


def test_advice_of_every_client_is_its_own(written: tuple[str, Page]) -> None:
    """ward-1 60 to 90, ward-2 80 to 83, ward-10 90 to 70."""
    _, page = written
    of = {name: page.text[page.text.index(f"next → {name} ") :] for name in CLIENTS}
    assert of["ward-1"].index("Federation gains 30.0 points here.") < 200
    assert of["ward-2"].index("Federation gains 3.0 points here, perhaps.") < 200
    assert of["ward-10"].index("No gain: keep the local model.") < 200


def test_page_of_a_client_names_the_best_model_that_ran_and_draws_it(tmp_path: Path) -> None:
    """ward-1: alone 60, FedAP 90, FedPer 99 (0.826..0.945 and 0.946..0.998); elsewhere FedPer equals FedAP."""
    write_comparison(tmp_path)
    write_run(tmp_path, "fedper", [[50, 70, 70], [99, 83, 70]])
    text, page = page_of(tmp_path)
    assert page.text.count("Use the model of FedPer: it is 9.0 points better than FedAP here.") == 1
    own = text[text.index('id="client-ward-1"') : text.index('id="client-ward-2"')]
    drawn = ["Base", "FedAvg", "FedPer", "FedAP"]
    assert re.findall(r'<polyline[^>]*data-name="(.*?)"', own) == 2 * drawn  # for a screen and for a telephone


def test_names_are_never_markup(tmp_path: Path) -> None:
    clients = (MARKUP_NAME, "a&b", '"quoted"')
    write_comparison(tmp_path, clients=clients, classes=("<b>", "</script><script>"))
    text, page = page_of(tmp_path)
    _, plain = page_of(write_comparison(tmp_path / "plain"))
    assert page.faults == []
    assert page.tags.count("script") == plain.tags.count("script")
    assert page.tags.count("b") == plain.tags.count("b")
    assert MARKUP_NAME not in text
    assert MARKUP_NAME in page.text


def test_clients_whose_names_differ_only_in_signs_have_pages_of_their_own(tmp_path: Path) -> None:
    write_comparison(tmp_path, clients=("a b", "a/b", "ä"))
    _, page = page_of(tmp_path)
    assert {"client-a-b", "client-a-b-2", "client-unnamed"} <= set(page.ids)


def test_what_a_run_does_not_know_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, "fedavg", [[50, 60, 70]])
    _, page = page_of(tmp_path)
    assert "mixing" not in page.ids
    assert "Bytes per participant" not in page.text
    assert "Bytes on the wire were not recorded" in page.text
    assert "no scores of local training" in page.text


def test_computed_bytes_are_shown_and_called_so(tmp_path: Path) -> None:
    write_run(tmp_path, "fedbn", [[50, 60, 70]], cohort={"data": "har"}, model="har-cnn")
    _, page = page_of(tmp_path)
    assert page.text.count("Bytes are computed, not measured.") == 2
    assert "Bytes per participant" in page.text
    assert "not recorded" not in page.text
    assert "may have done other work" in page.text


def test_matrix_of_everyone_alike_is_no_heat_map(tmp_path: Path) -> None:
    """Sample counts give equal rows, and everyone alone the identity: neither tells who helps whom."""
    write_run(tmp_path, "fedavg", [[50, 60, 70]], weights=[[0.2, 0.3, 0.5]] * 3)
    write_run(tmp_path, "base", [[50, 60, 70]], weights=[[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert "mixing" not in page_of(tmp_path)[1].ids


def test_twenty_clients_and_eight_algorithms_stay_below_a_megabyte(tmp_path: Path) -> None:
    clients = [f"client-{number}" for number in range(20)]
    rounds = [[50 + (number + at) % 40 for at in range(20)] for number in range(100)]
    weights = [[0.5 if i == j else 0.5 / 19 + (i - j) % 7 * 1e-3 for j in range(20)] for i in range(20)]
    for algorithm in ("base", "fedavg", "fedprox", "fedper", "fedbn", "d-fedap", "f-fedap", "fedap"):
        write_run(tmp_path, algorithm, rounds, clients=clients, weights=weights)
    assert len(page_of(tmp_path)[0].encode()) < 1_000_000


def test_templates_travel_with_the_package() -> None:
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folder = ROOT / "scripts/report/page"
    files = {str(path.relative_to(folder)) for path in (folder / "templates").iterdir()}
    matched = [path for pattern in packed["scripts.report.page"] for path in folder.glob(pattern)]
    assert {str(path.relative_to(folder)) for path in matched} == files


def test_command_writes_the_file_and_says_where(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "fedap", [[50, 60, 70]], weights=WEIGHTS, distances=DISTANCES)
    out = tmp_path / "deep" / "page.html"
    done = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--out", str(out), "--where", "alpha=0.1"])
    assert (done.exit_code, done.stdout) == (0, f"Report: {out}\n")
    assert [path.name for path in out.parent.iterdir()] == ["page.html"]


def test_many_clients_are_shown_by_clusters_and_the_worst_served_are_listed(tmp_path: Path) -> None:
    """300 clients in two clusters; client c000 to c049 have the lowest accuracy."""
    clients = [f"c{number:03d}" for number in range(300)]
    correct = [min(99, 20 + number // 4) for number in range(300)]
    folder = write_run(tmp_path, "fedap", [correct], clients=clients)
    described = {
        "members": clients,
        "from_round": 0,
        "self_weight": 0.5,
        "neighbours": [[(number + 2) % 300, (number + 4) % 300] for number in range(300)],
        "neighbour_weights": [[0.3, 0.2]] * 300,
        "clusters": [number % 2 for number in range(300)],
    }
    (folder / "mixing.json").write_text(json.dumps(described))
    text, page = page_of(tmp_path)
    pages = [one for one in page.ids if one.startswith("client-") and not one.endswith("-title")]
    assert pages == [f"client-{name}" for name in clients[:50]]
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert page.faults == []
    assert "Of 300 clients, the 50 with the lowest accuracy are listed" in page.text
    assert "#1 (150) (c000 and others) takes 0.5 from #1 (150)" in page.text
    assert "c000 takes 0.3 from c002" in page.text
    assert len(text) < 1_000_000
