"""The report page: whole by itself, and usable in a real browser, wide and narrow, by mouse and keyboard."""

import json
import re
import shutil

import cv2
import numpy as np
import pytest

from aerial_vpr_cl.page.flight_page import FlightRun, Ground, Moment, Pictures, page, write_page

WEST, SOUTH = 500_000.0, 5_200_000.0
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


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
    pictures = [Pictures(k, picture(k % 256), picture(100), picture(200)) for k in range(0, frames, 10)]
    return FlightRun(
        name,
        moments,
        pictures,
        summary=f"{name}: a summary",
        figures={"frames": str(frames), "median": "9 m"},
        coverage={"50": 0.47, "90": 0.88, "95": 0.96},
        silences={"not sure enough": 12},
    )


@pytest.fixture(scope="module")
def ground():
    rng = np.random.default_rng(0)
    return Ground(rng.integers(0, 255, (300, 400, 3), dtype=np.uint8), (WEST, SOUTH, WEST + 4000.0, SOUTH + 3000.0))


def data_of(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_positions_are_metres_from_the_corner_and_silences_have_none(ground):
    frames = data_of(page("title", ground, [flight("a", 20)]))["runs"][0]["frames"]
    assert frames["truth_x"][0] == 300.0
    assert frames["x"][0] is None and frames["reason"][0] == "not sure enough"
    assert frames["error_m"][5] == pytest.approx(
        np.hypot(frames["x"][5] - frames["truth_x"][5], frames["y"][5] - frames["truth_y"][5]), abs=0.2
    )
    assert frames["sigma_m"][5] == pytest.approx(10.0, abs=0.01)  # eigenvalues 100 and 50


def test_the_page_loads_nothing_from_elsewhere(ground):
    text = page("title", ground, [flight("a", 5)])
    loading = re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#)[^"']+|url\((?!data:|#)[^)]*\)|@import[^;]+""", text)
    assert [found for found in loading if "leafletjs.com" not in found] == []


def test_text_of_a_flight_cannot_become_part_of_the_page(ground):
    text = page("</title><b>", ground, [FlightRun("</script><script>alert(1)</script>", flight("a", 3).moments)])
    assert "<script>alert" not in text
    assert "</title><b>" not in text
    assert data_of(text)["runs"][0]["name"] == "</script><script>alert(1)</script>"


# In a real browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (BROWSER and DRIVER):
        pytest.skip("chromium and chromium-driver are not installed; Debian and Ubuntu have them as packages")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    arguments = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-sync"
    for argument in [*arguments.split(), "disable-component-update", "disable-dev-shm-usage"]:
        options.add_argument(f"--{argument}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def shown(browser, ground, tmp_path_factory):
    """The page of two flights, one of them long, open without a network."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, "Two flights", ground, [flight("short", 60), flight("long", 3000)], ["generation 1: learnt"])
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
    assert len(boxes) == 5
    for box in boxes:
        box.click()
    assert browser.execute_script(count) < whole - 20
    for box in browser.find_elements(By.CSS_SELECTOR, ".leaflet-control-layers-overlays input")[1:]:
        box.click()
    assert browser.execute_script(count) == whole


def test_a_long_flight_is_shown_with_few_regions(shown):
    browser = shown(1600)
    browser.execute_script(
        "const r = document.getElementById('run'); r.value = 1; r.dispatchEvent(new Event('change'));"
    )
    assert "1 of 3000" in browser.execute_script("return document.getElementById('facts').textContent")
    polygons = "let n = 0; aerialVprReport.map.eachLayer((l) => { if (l instanceof L.Polygon) n++; }); return n"
    assert 100 < browser.execute_script(polygons) <= 400
