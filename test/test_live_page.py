"""The live page: bounded memory, read only, nobody else's name; and a track that grows in a real browser."""

import http.client
import json
from urllib.parse import urlsplit

import numpy as np
import pytest
from browser_support import open_browser
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.page.flight_page import Page, page_text
from aerial_vpr_cl.page.live_flight import NOTES, LiveFlight, State
from aerial_vpr_cl.page.live_server import LiveServer, is_own_name
from aerial_vpr_cl.page.runs import FlightRun, Ground, Pictures
from aerial_vpr_cl.page.thumbnails import small_jpeg

ORIGIN = np.array([500_000.0, 5_200_000.0])
SECOND = 10**9
START = 1_700_000_000 * SECOND


def answer(east_m):
    return ORIGIN + np.array([east_m, 100.0]), np.eye(2) * 25.0


def fly(flight, seconds, first=0):
    """So many frames, one a second and 20 m apart; every fifth is silent."""
    for second in range(first, first + seconds):
        stamp_ns = START + second * SECOND
        silent = second % 5 == 0
        flight.add_image(stamp_ns, small_jpeg(np.full((40, 40, 3), 90, np.uint8)))
        flight.add_truth(stamp_ns, ORIGIN + np.array([20.0 * second, 104.0]))
        flight.add_answer(stamp_ns, None if silent else answer(20.0 * second + 3.0))
        flight.add_state(stamp_ns, State("tracking", "unsure" if silent else "", 0.99, 9.0))


def test_a_moment_is_what_was_said_of_one_frame():
    flight = LiveFlight(ORIGIN, map_at=lambda position: b"map")
    fly(flight, 3)
    flight.add_answer(START + 10 * SECOND, answer(0.0))  # between frames: nobody says a state of it
    found = flight.since(-1, 0)
    assert (found["first"], found["next"]) == (0, 3)
    frames = found["frames"]
    assert frames["t"] == [0.0, 1.0, 2.0]
    assert frames["x"] == [None, 23.0, 43.0] and frames["reason"] == ["unsure", "", ""]
    assert frames["error_m"] == [None, 5.0, 5.0] and frames["z"] == [9.0] * 3
    assert all(latency >= 0.0 for latency in frames["latency_ms"])
    assert [one["number"] for one in found["pictures"]] == [0, 1, 2]
    assert [one["kinds"] for one in found["pictures"]] == [["frame"], ["frame", "map"], ["frame", "map"]]
    assert flight.picture(found["flight"], 1, "map") == b"map"
    assert flight.picture(found["flight"], 0, "map") == b"" and flight.picture(found["flight"], 9, "frame") == b""
    assert "2 of the last 3" in flight.summary


@pytest.mark.parametrize("early", [True, False])
def test_what_the_node_itself_shows_of_a_frame_goes_before(early):
    flight = LiveFlight(ORIGIN)
    own = Pictures(0, b"camera", b"view", b"there")
    if early:
        flight.add_pictures(START + SECOND, own)
    fly(flight, 3)
    if not early:
        flight.add_pictures(START + SECOND, own)
    number = flight.since(-1, 0)["flight"]
    assert [flight.picture(number, 1, kind) for kind in ("frame", "view", "map")] == [b"camera", b"view", b"there"]
    assert flight.picture(number, 2, "view") == b""


def test_a_state_that_overtakes_its_position_waits_for_it():
    flight = LiveFlight(ORIGIN)
    flight.add_state(START, State("tracking"))
    assert flight.since(-1, 0)["next"] == 0
    flight.add_answer(START, answer(7.0))
    assert flight.since(-1, 0)["frames"]["x"] == [7.0]
    flight.add_state(START + SECOND, State("searching", "searching"))
    assert flight.since(-1, 0)["frames"]["x"] == [7.0, None], "a silence needs no position"


def test_only_what_is_new_is_told():
    flight = LiveFlight(ORIGIN)
    fly(flight, 4)
    first = flight.since(-1, 0)
    assert flight.since(first["flight"], 4)["frames"]["t"] == []
    fly(flight, 2, first=4)
    again = flight.since(first["flight"], first["next"])
    assert (again["first"], again["next"], again["frames"]["t"]) == (4, 6, [4.0, 5.0])
    assert flight.since(first["flight"], 10**9)["frames"]["t"] == []
    assert len(flight.since(first["flight"] + 7, 5)["frames"]["t"]) == 6, "a page that knows another flight gets all"


def test_time_that_runs_backwards_begins_another_flight():
    flight = LiveFlight(ORIGIN)
    fly(flight, 8)
    before = flight.since(-1, 0)
    fly(flight, 3)
    after = flight.since(before["flight"], before["next"])
    assert after["flight"] != before["flight"]
    assert (after["first"], after["next"]) == (0, 3)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 120), st.integers(1, 40), st.integers(1, 9))
def test_memory_is_bounded_however_long_the_flight(frames, most_moments, most_pictures):
    flight = LiveFlight(ORIGIN, most_moments=most_moments, most_pictures=most_pictures)
    fly(flight, frames)
    found = flight.since(-1, 0)
    assert len(found["frames"]["t"]) == min(frames, most_moments)
    assert (found["first"], found["next"]) == (max(0, frames - most_moments), frames)
    assert len(found["pictures"]) <= most_pictures
    assert all(picture["number"] >= found["first"] for picture in found["pictures"])
    json.dumps(found, allow_nan=False)


def test_what_never_became_a_frame_is_forgotten():
    flight = LiveFlight(ORIGIN)
    for number in range(10 * NOTES):
        flight.add_answer(START + number, None)
        flight.add_image(START + number)
        flight.add_gnss(START + number, ORIGIN)
    notes = (flight._answers, flight._images, flight._gnss)
    assert [len(kind._notes) for kind in notes] == [NOTES] * 3


# Over HTTP


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = open_browser(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


@pytest.fixture
def served():
    """A live flight and its server."""
    flight = LiveFlight(ORIGIN)
    ground = Ground(np.full((60, 80, 3), 120, np.uint8), (500_000.0, 5_200_000.0, 504_000.0, 5_203_000.0))
    page = page_text(Page("Live", ground, [FlightRun("live", [])], live_s=0.1))
    server = LiveServer(page.encode(), flight)
    yield flight, server
    server.close()


def ask(server, path="/", method="GET", **headers):
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    found = response.status, response.getheaders(), response.read()
    connection.close()
    return found


def test_page_moments_and_pictures_are_served_to_this_computer(served):
    flight, server = served
    assert server.url.startswith("http://127.0.0.1:")
    fly(flight, 3)
    status, headers, body = ask(server)
    assert status == 200 and b"<title>Live</title>" in body
    assert "default-src 'none'" in dict(headers)["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in dict(headers)
    status, _, body = ask(server, "/moments?flight=-1&number=0")
    found = json.loads(body)
    assert status == 200 and len(found["frames"]["t"]) == 3
    status, _, body = ask(server, f"/frame.jpg?flight={found['flight']}&number=2")
    assert status == 200 and body.startswith(b"\xff\xd8")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(served, method):
    status, _, _ = ask(served[1], "/moments", method)
    assert status in (405, 501)


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/static/report.js", "/frame.jpg/../..", "/x"],
)
def test_no_file_can_be_asked_for(served, path):
    status, _, body = ask(served[1], path)
    assert status == 404 and b"root:" not in body


@pytest.mark.parametrize("path", ["/moments?flight=x", "/moments?number=1e9", "/frame.jpg?number=--1"])
def test_nonsense_is_a_bad_request(served, path):
    assert ask(served[1], path)[0] == 400


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8088", "localhost.evil.example", "127.0.0.1.example", "[", ""]
)
def test_a_name_that_somebody_else_made_point_here_is_refused(served, host):
    status, _, body = ask(served[1], "/moments", Host=host)
    assert status == 421 and b"frames" not in body


def test_addresses_localhost_and_the_given_name_are_ours():
    for host in ("127.0.0.1:8088", "localhost", "LOCALHOST:80", "[::1]:8088", "192.168.1.7:8088", "drone.local:8088"):
        assert is_own_name(host, "drone.local")
    assert not is_own_name("drone.local", "127.0.0.1")


def test_a_port_that_is_taken_is_said(served):
    port = urlsplit(served[1].url).port
    with pytest.raises(SettingsError, match="--port"):
        LiveServer(b"", served[0], port=port)


def test_the_track_grows_in_a_browser_and_a_new_flight_replaces_it(served, browser):
    from selenium.webdriver.support.ui import WebDriverWait

    flight, server = served
    browser.get(server.url)

    def shows(frames):
        script = "return document.getElementById('facts').textContent"
        WebDriverWait(browser, 60).until(lambda one: f"frame{frames} of {frames}" in one.execute_script(script))

    fly(flight, 12)
    shows(12)
    assert browser.execute_script("return aerialVprReport.charts") == 4
    fly(flight, 8, first=12)
    shows(20)
    points = "return aerialVprReport.run.frames.x.filter((x) => x !== null).length"
    assert browser.execute_script(points) == 16
    browser.execute_script("aerialVprReport.show(3)")  # who looks at an earlier moment is left there
    fly(flight, 5, first=20)
    WebDriverWait(browser, 60).until(lambda one: one.execute_script(points) == 20)
    assert browser.execute_script("return aerialVprReport.current") == 3
    assert browser.execute_script("return document.getElementById('picture-frame').naturalWidth") == 40
    fly(flight, 4)
    shows(4)
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_page_whose_server_has_ended_says_so(browser):
    from selenium.webdriver.support.ui import WebDriverWait

    ground = Ground(np.full((60, 80, 3), 120, np.uint8), (500_000.0, 5_200_000.0, 504_000.0, 5_203_000.0))
    page = page_text(Page("Live", ground, [FlightRun("live", [])], live_s=0.1))
    server = LiveServer(page.encode(), LiveFlight(ORIGIN))
    browser.get(server.url)
    server.close()
    script = "return document.getElementById('live').textContent"
    WebDriverWait(browser, 60).until(lambda one: "has ended" in one.execute_script(script))
    browser.get_log("browser")
