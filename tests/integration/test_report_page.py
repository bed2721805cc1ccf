"""The report in a real browser: scripts run without complaint, pages turn, nothing is wider than the window.

One headless Chromium looks at the page in frames of two widths, and in a third where scripts are off, and writes down
what it measured. Without Chromium (`apt-get install chromium`; scripts/test.sh does it where it may) these skip.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from protocol.host.web.colours import contrast_ratio
from scripts.report.page import write_report
from tests.support.browser import chromium
from tests.support.report_runs import write_comparison, write_run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
CLIENTS = ('<img src=x onerror="throw 1">', "a-ward-with-a-name-of-more-letters-than-any-column-holds" * 2, "ward-10")
WIDTHS = (1300, 390)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH")

_WATCH = "<script>addEventListener('error', (event) => parent.faults.push(String(event.message)));</script>"
_MEASURE = """
const settled = () => new Promise((done) => setTimeout(done, 60));
const wide = (page) => page.documentElement.scrollWidth - page.documentElement.clientWidth;
// Words of a drawing that stick out of it, and so are cut off. Turned ones are left to the eye.
const cut = (page) => [...page.querySelectorAll("svg.chart text:not([transform])")].filter((text) => {
  const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
  return inner.width && (inner.left < outer.left - 1 || inner.right > outer.right + 1);
}).map((text) => text.textContent);
const shown = (page) => [...page.querySelectorAll("#overview, .participant")]
  .filter((one) => one.getClientRects().length).map((one) => one.id);
function point(page, selector, x, y) {
  const box = page.querySelector(selector).getBoundingClientRect();
  const at = { clientX: box.left + x * box.width, clientY: box.top + y * box.height, bubbles: true };
  page.querySelector(selector).dispatchEvent(new page.defaultView.PointerEvent("pointermove", at));
  return page.getElementById("tip").textContent;
}
async function look(frame) {
  const page = frame.contentDocument, seen = { visits: {}, overflow: {}, cut: {}, wide: [] };
  for (const hash of ["", ...[...page.querySelectorAll(".participant")].map((one) => one.id), "mixing", "summary"]) {
    page.defaultView.location.hash = hash;
    await settled();
    seen.visits[hash] = shown(page);
    seen.overflow[hash] = wide(page);
    seen.cut[hash] = cut(page);
  }
  const axes = [...page.querySelectorAll("#rounds svg.curves .axis, #clients svg.dots a text")];
  seen.axes = axes.filter((text) => text.getClientRects().length).map((text) =>
    text.getBoundingClientRect().left - text.closest(".scroll").getBoundingClientRect().left);
  seen.wide = [...page.querySelectorAll(".narrow-only svg.chart, .wide-only svg.chart")].filter((chart) =>
    chart.clientWidth > chart.closest(".scroll").clientWidth + 1).map((chart) => chart.getAttribute("class"));
  const fitting = page.defaultView.innerWidth > 640 ? ".wide-only" : ".narrow-only";
  seen.curveTip = point(page, `#rounds ${fitting} svg`, 0.8, 0.5);
  seen.heatTip = point(page, "svg.heat", 0.99, 0.99);
  const drawn = () => page.querySelectorAll("#rounds polyline:not(.off)").length;
  seen.lines = [drawn()];
  page.querySelector(".legend button").click();
  seen.lines.push(drawn());
  page.getElementById("jump").value = "client-ward-10";
  page.getElementById("jump").dispatchEvent(new page.defaultView.Event("change"));
  await settled();
  seen.jumped = shown(page);
  return seen;
}
addEventListener("load", async () => {
  const found = { faults, pages: {} };
  for (const frame of document.querySelectorAll("iframe.live")) found.pages[frame.width] = await look(frame);
  const quiet = document.querySelector("iframe.quiet").contentDocument;
  found.quiet = { shown: shown(quiet), overflow: wide(quiet) };
  document.getElementById("found").textContent = JSON.stringify(found);
});
"""


def _desk(report: str) -> str:
    """A page with the report in three frames. Frames by `srcdoc` may be looked into, files beside it may not."""
    live = escape(report.replace("<head>", f"<head>{_WATCH}", 1))
    frames = "".join(f'<iframe class="live" width="{width}" height="900" srcdoc="{live}"></iframe>' for width in WIDTHS)
    quiet = f'<iframe class="quiet" sandbox="allow-same-origin" width="400" srcdoc="{escape(report)}"></iframe>'
    start = f"<script>const faults = []; {_MEASURE}</script>"
    return f'<!doctype html><meta charset="utf-8"><pre id="found"></pre>{start}{frames}{quiet}'


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    folder = tmp_path_factory.mktemp("browser")
    runs = write_comparison(folder / "runs", clients=CLIENTS)
    write_run(runs, "fedap", [[50, 60, 70], [70, 70, 70]], clients=CLIENTS, options={"max_peer_weight": "0.2"})
    report = write_report([runs], folder / "report.html")
    desk = folder / "desk.html"
    desk.write_text(_desk(report.read_text(encoding="utf-8")), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    place = [f"--user-data-dir={folder / 'profile'}", "--window-size=1400,900", "--virtual-time-budget=20000"]
    command = [str(BROWSER), *flags, *place, "--dump-dom", desk.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    if found is None or not found.group(1):
        pytest.fail(f"the browser measured nothing: {done.stderr[-2000:]}")
    lines = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    console = [line for line in lines if "Blocked script execution" not in line]  # of the frame where scripts are off
    return {**json.loads(unescape(found.group(1))), "console": console}


def test_scripts_run_without_complaint(seen: Mapping[str, Any]) -> None:
    assert (seen["faults"], seen["console"]) == ([], [])


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(seen: Mapping[str, Any], width: int) -> None:
    assert {place: excess for place, excess in seen["pages"][str(width)]["overflow"].items() if excess > 0} == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_charts_open_at_their_left_where_the_axis_stands(seen: Mapping[str, Any], width: int) -> None:
    places = seen["pages"][str(width)]["axes"]
    assert len(places) >= 2 + len(CLIENTS)
    assert min(places) >= 0


@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_of_a_drawing_is_cut_off(seen: Mapping[str, Any], width: int) -> None:
    assert {place: words for place, words in seen["pages"][str(width)]["cut"].items() if words} == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_no_drawing_has_to_be_scrolled_sideways(seen: Mapping[str, Any], width: int) -> None:
    """Curve ends and labels are in sight on a telephone, too. Classes by clients and W may be scrolled."""
    assert seen["pages"][str(width)]["wide"] == []


def test_address_turns_the_pages(seen: Mapping[str, Any]) -> None:
    """The overview without a client in the address, otherwise that client's page alone; a section leads back."""
    visits = seen["pages"]["1300"]["visits"]
    pages = {place: [place] for place in visits if place.startswith("client-")}
    assert len(pages) == len(CLIENTS)
    assert visits == {"": ["overview"], **pages, "mixing": ["overview"], "summary": ["overview"]}


def test_list_of_participants_leads_to_a_page(seen: Mapping[str, Any]) -> None:
    assert seen["pages"]["1300"]["jumped"] == ["client-ward-10"]


@pytest.mark.parametrize("width", WIDTHS)
def test_pointer_reads_values_from_curves_and_heat_map(seen: Mapping[str, Any], width: int) -> None:
    """The lower right corner of W is somebody's own weight, 0.5."""
    page = seen["pages"][str(width)]
    assert page["curveTip"].startswith("Round 2FedAP 81.00 %")
    assert re.fullmatch(r".* keeps 0\.500 of its own", page["heatTip"])


def test_legend_hides_an_algorithm_in_every_chart(seen: Mapping[str, Any]) -> None:
    before, after = seen["pages"]["1300"]["lines"]
    assert before % 4 == 0
    assert after == before * 3 // 4


def test_without_scripts_everything_is_there_one_under_the_other(seen: Mapping[str, Any]) -> None:
    assert len(seen["quiet"]["shown"]) == 1 + len(CLIENTS)
    assert seen["quiet"]["overflow"] <= 0


def test_printing_one_participant_prints_that_one_and_printing_the_overview_prints_all(
    tmp_path: Path,
) -> None:
    report = write_report([write_comparison(tmp_path / "runs", clients=CLIENTS)], tmp_path / "report.html")
    parts = "[...document.querySelectorAll('#overview, .participant')]"
    shown = f"{parts}.filter((one) => one.getClientRects().length).length"
    with chromium(tmp_path) as browser:
        tab = browser.tab()
        tab.open(report.as_uri())
        tab.call("Emulation.setEmulatedMedia", media="print")
        assert tab.run(shown) == 1 + len(CLIENTS)
        tab.run("location.hash = '#client-ward-10'")
        tab.until("document.documentElement.dataset.page === 'client-ward-10'")
        assert tab.run(shown) == 1
        assert tab.run("document.getElementById('client-ward-10').getClientRects().length") == 1


def test_every_series_can_be_read_on_light_and_on_dark(tmp_path: Path) -> None:
    """Colours of lines, dots, bars and their names, as the browser computes them, against the card behind them; nothing
    is drawn half transparent but the band between seeds."""
    report = write_report([write_comparison(tmp_path / "runs", clients=CLIENTS)], tmp_path / "report.html")
    with chromium(tmp_path) as browser:
        tab = browser.tab()
        for dark in (False, True):
            tab.size(1300, dark=dark)
            tab.open(report.as_uri())
            ground = tab.run("getComputedStyle(document.querySelector('.card')).backgroundColor")
            marks = tab.run(_MARKS)
            assert len(marks) > 20
            assert {kind: colour for kind, colour, _ in marks if _contrast(colour, ground) < 4.5} == {}
            assert {kind for kind, _, opacity in marks if opacity != "1"} == set()


_MARKS = """[...document.querySelectorAll(
  "svg .line, svg .dot:not(.alone), svg .interval, svg .change, svg .name, svg .share, svg .amount, " +
  "svg [class^=phase-], svg [class^=way-]"
)].map((mark) => {
  const style = getComputedStyle(mark);
  const isStroke = mark.matches(".line, .interval, .change");
  return [mark.getAttribute("class"), isStroke ? style.stroke : style.fill, style.opacity];
})"""


def _contrast(one: str, other: str) -> float:
    colours = ["#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", text)[:3]) for text in (one, other)]
    return contrast_ratio(colours[0], colours[1])
