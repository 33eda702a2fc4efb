"""A real headless Chromium, where there is one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


def open_browser(profile: Path) -> Any:
    """A browser that asks nobody for anything but what it is told to open; skips the test where there is none."""
    if not (BROWSER and DRIVER):
        pytest.skip("chromium and chromium-driver are not installed; Debian and Ubuntu have them as packages")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    arguments = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-sync"
    for argument in [*arguments.split(), "disable-component-update", "disable-dev-shm-usage"]:
        options.add_argument(f"--{argument}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))
