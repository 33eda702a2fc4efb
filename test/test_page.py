"""The report page: whole by itself, and usable in a real browser, wide and narrow, by mouse and keyboard."""

import json
import re

import cv2
import numpy as np
import pytest
from browser_support import open_browser

from aerial_vpr_cl.page.flight_page import MOST_MOMENTS, Page, page_text, write_page
from aerial_vpr_cl.page.runs import FlightRun, Ground, Moment, Pictures, Result

WEST, SOUTH = 500_000.0, 5_200_000.0


def picture(shade):
    return cv2.imencode(".jpg", np.full((32, 32, 3), shade, np.uint8))[1].tobytes()


def flight(name, frames, first_answer=4):
    rng = np.random.default_rng(frames)
    moments = []
    for k in range(frames):
        truth = np.array([WEST + 300.0 + 2000.0 * k / frames, SOUTH + 1000.0 + 500.0 * np.sin(12.0 * k / frames)])
        answered = k >= first_answer and k % 10 != 0
        moments.append(
            Moment(
                stamp_ns=10**18 + k * 500_000_000,
                state="tracking" if answered else "searching",
                reason="" if answered else "not sure enough",
                position=truth + rng.normal(0.0, 8.0, 2) if answered else None,
                covariance=np.array([[90.0, 20.0], [20.0, 60.0]]) if answered else None,
                truth=truth,
                gnss=truth + rng.normal(0.0, 2.0, 2),
                z=8.0,
                confidence=0.99 if answered else 0.3,
                latency_ms=40.0,
            )
        )
    step = max(10, frames // 80)
    pictures = [
        Pictures(k, picture(k % 256), picture(100), picture(200), picture(250), 320.0) for k in range(0, frames, step)
    ]
    return FlightRun(
        name,
        moments,
        pictures,
        summary=f"{name}: a summary",
        figures={"frames": str(frames), "median": "9 m"},
        coverage={"50": 0.47, "90": 0.88, "95": 0.96},
        silences={"not sure enough": 12},
        kept=[5, 6, 15],
    )


BENCHMARK = Result(
    "dbs_hybrid", {"FAA": "61.0%"}, [10.0, 40.0, 500.0], 4, ["one", "two"], [[0.2, 0.1], [0.8, 0.2], [0.7, 0.9]]
)
LEARNT = {
    "generation": 1,
    "mission": "short",
    "flown": 60,
    "labels": {"gnss": 30, "track": 20},
    "refused": {"no proof": 10},
    "used": 40,
    "kept": 12,
    "before": {"this flight": 0.4, "earlier flights": None, "the map": 0.9},
    "after": {"this flight": 0.8, "earlier flights": None, "the map": 0.9},
    "summary": "short: learnt as generation 1",
}


@pytest.fixture(scope="module")
def ground():
    rng = np.random.default_rng(0)
    return Ground(rng.integers(0, 255, (300, 400, 3), dtype=np.uint8), (WEST, SOUTH, WEST + 4000.0, SOUTH + 3000.0))


def data_of(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_positions_are_metres_from_the_corner_and_silences_have_none(ground):
    frames = data_of(page_text(Page("title", ground, [flight("a", 20)])))["runs"][0]["frames"]
    assert frames["truth_x"][0] == 300.0
    assert frames["x"][0] is None and frames["reason"][0] == "not sure enough"
    assert frames["error_m"][5] == pytest.approx(
        np.hypot(frames["x"][5] - frames["truth_x"][5], frames["y"][5] - frames["truth_y"][5]), abs=0.2
    )
    assert frames["sigma_m"][5] == pytest.approx(10.0, abs=0.01)  # eigenvalues 100 and 50


def test_the_page_loads_nothing_from_elsewhere(ground):
    text = page_text(Page("title", ground, [flight("a", 5)]))
    loading = re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#)[^"']+|url\((?!data:|#)[^)]*\)|@import[^;]+""", text)
    assert [found for found in loading if "leafletjs.com" not in found] == []


def test_text_of_a_flight_cannot_become_part_of_the_page(ground):
    text = page_text(
        Page("</title><b>", ground, [FlightRun("</script><script>alert(1)</script>", flight("a", 3).moments)])
    )
    assert "<script>alert" not in text
    assert "</title><b>" not in text
    assert data_of(text)["runs"][0]["name"] == "</script><script>alert(1)</script>"


def test_a_flight_of_a_day_is_thinned_and_says_so(ground):
    moments = [Moment(stamp_ns=k * 10**9, reason="searching") for k in range(3 * MOST_MOMENTS - 5)]
    run = FlightRun("day", moments, [Pictures(6000, picture(1))], kept=[9, 10])
    (shown,) = data_of(text := page_text(Page("title", ground, [run])))["runs"]
    assert (shown["every"], shown["of"]) == (3, 3 * MOST_MOMENTS - 5)
    assert shown["frames"]["t"][:3] == [0.0, 3.0, 6.0] and len(shown["frames"]["t"]) <= MOST_MOMENTS
    assert shown["kept"] == [3]
    assert '"frame":2000' in text


def test_errors_are_compared_over_all_frames_whose_place_is_known(ground):
    silent = [Moment(stamp_ns=k, truth=np.zeros(2)) for k in range(50)]
    near = [Moment(stamp_ns=50 + k, truth=np.zeros(2), position=np.array([3.0, 4.0])) for k in range(50)]
    unknown = [Moment(stamp_ns=200, position=np.zeros(2))]
    run = FlightRun("half", [*silent, *near, *unknown])
    (shown,) = data_of(page_text(Page("title", ground, [run])))["runs"]
    assert shown["within_m"] == [5.0] * 25 + [None] * 25


# In a real browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = open_browser(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def shown(browser, ground, tmp_path_factory):
    """The page of two flights, one of them long, open without a network."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    runs = [flight("short", 60), flight("long", 5000)]
    size = write_page(path, Page("Two flights", ground, runs, [BENCHMARK], [LEARNT]))
    assert size < 4e6, "the page of a long flight stays small"
    browser.execute_cdp_cmd("Network.enable", {})
    conditions = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    def show(width):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(path.as_uri())
        return browser

    return show


@pytest.mark.parametrize("width", [390, 1600])
def test_the_page_fits_and_has_no_errors(shown, width):
    browser = shown(width)
    assert browser.execute_script("return aerialVprReport.charts") == 4
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_slider_moves_through_the_flight(shown):
    browser = shown(1600)
    facts = "return document.getElementById('facts').textContent"
    assert "silent: not sure enough" in browser.execute_script(facts)
    source = "return document.getElementById('picture-frame').src"
    before = browser.execute_script(source)
    browser.execute_script(
        "const s = document.getElementById('time'); s.value = 45; s.dispatchEvent(new Event('input'));"
    )
    assert "frame46 of 60" in browser.execute_script(facts)
    assert browser.execute_script(source) != before
    caption = "return document.getElementById('caption-peak').textContent"
    assert browser.execute_script(caption) == "registration, 320 m across"


def test_the_keyboard_reaches_the_slider_and_moves_it(shown):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser = shown(1600)
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element.get_attribute("id") == "time":
            break
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert browser.execute_script("return aerialVprReport.current") == 2
    assert browser.find_element(By.ID, "when").text == "1.0 s"


def test_layers_can_be_switched_off_and_on(shown):
    from selenium.webdriver.common.by import By

    browser = shown(1600)
    count = "let n = 0; aerialVprReport.map.eachLayer(() => n++); return n"
    whole = browser.execute_script(count)
    boxes = browser.find_elements(By.CSS_SELECTOR, ".leaflet-control-layers-overlays input:checked")
    assert len(boxes) == 6  # all but the other flights
    for box in boxes:
        box.click()
    assert browser.execute_script(count) < whole - 20
    for box in browser.find_elements(By.CSS_SELECTOR, ".leaflet-control-layers-overlays input")[1:]:
        box.click()
    assert browser.execute_script(count) == whole


def test_a_layer_that_was_switched_off_stays_off_in_another_flight(shown):
    from selenium.webdriver.common.by import By

    browser = shown(1600)
    label = "//label[contains(., 'truth')]//input"
    browser.find_element(By.XPATH, label).click()
    browser.execute_script("aerialVprReport.choose(1)")
    assert not browser.find_element(By.XPATH, label).is_selected()
    assert browser.execute_script("return document.getElementById('run').value") == "1"


def test_flights_and_results_stand_side_by_side(shown):
    browser = shown(1600)
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#table tr')].map((r) => r.cells[0].textContent)"
    )
    assert rows == ["", "short", "long", "dbs_hybrid"]
    legends = "return [...document.querySelectorAll('#{} .u-series .u-label')].map((one) => one.textContent)"
    assert {"short", "long", "honest"} <= set(browser.execute_script(legends.format("reliability")))
    assert {"short", "long", "dbs_hybrid"} <= set(browser.execute_script(legends.format("errors")))
    matrix = browser.execute_script("return document.getElementById('matrices').textContent")
    assert "nothing20 %10 %" in matrix and "two70 %90 %" in matrix


def test_what_was_learnt_is_told_with_labels_and_recalls(shown):
    told = shown(1600).execute_script("return document.getElementById('learning').textContent")
    for words in ("gnss 30, track 20", "no proof 10", "40 % → 80 %", "– → –", "short: learnt as generation 1"):
        assert words in told


def test_a_page_without_flights_shows_results_alone(browser, ground, tmp_path):
    write_page(tmp_path / "page.html", Page("Results", ground, results=[BENCHMARK]))
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.execute_script("return document.getElementById('map').offsetParent") is None
    assert "61.0%" in browser.execute_script("return document.getElementById('table').textContent")
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_long_flight_is_shown_with_few_regions(shown):
    browser = shown(1600)
    browser.execute_script(
        "const r = document.getElementById('run'); r.value = 1; r.dispatchEvent(new Event('change'));"
    )
    assert "1 of 5000" in browser.execute_script("return document.getElementById('facts').textContent")
    polygons = "let n = 0; aerialVprReport.map.eachLayer((l) => { if (l instanceof L.Polygon) n++; }); return n"
    assert 100 < browser.execute_script(polygons) <= 400
    # Its track is drawn on a canvas and its pictures are read when they are looked at: the document stays small.
    assert browser.execute_script("return document.getElementsByTagName('*').length") < 1000
    browser.execute_script("for (let k = 0; k < 200; k++) aerialVprReport.show(25 * k)")
    assert browser.execute_script("return aerialVprReport.current") == 4975
