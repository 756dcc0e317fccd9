"""The report in a real browser: it renders, prints on two pages, and everybody can read it."""

import os
import re
import shutil

import numpy as np
import pytest

from stillspace import PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.models import load_model, save_model
from stillspace.report import write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

PATHS = [os.environ.get("STILLSPACE_CHROMIUM"), *map(shutil.which, ("chromium", "google-chrome"))]

CONTRAST = """() => {
  const light = c => { const [r, g, b] = c.map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const parse = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.tagName.toLowerCase() === 'title') continue;
    const style = getComputedStyle(e);
    const color = e.tagName.toLowerCase() === 'text' ? style.fill : style.color;
    let back = [255, 255, 255];
    for (let p = e; p; p = p.parentElement) {
      const b = parse(getComputedStyle(p).backgroundColor);
      if (b.length === 3 || b[3] > 0) { back = b.slice(0, 3); break; }
    }
    const [a, b] = [light(parse(color).slice(0, 3)), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push([e.tagName, e.textContent.slice(0, 40), ratio]);
  }
  return bad; }"""


@pytest.fixture(scope="module")
def browser():
    """Chromium: Playwright's own, or one that is installed on the system."""
    with sync_api.sync_playwright() as playwright:
        options = [{}] + [{"executable_path": path} for path in PATHS if path]
        for option in options:
            try:
                found = playwright.chromium.launch(args=["--no-sandbox"], **option)
            except sync_api.Error:
                continue
            yield found
            found.close()
            return
        pytest.skip("no Chromium: run playwright install chromium, or set STILLSPACE_CHROMIUM")


@pytest.fixture
def page(browser, reported):
    """The report, opened in a page that notes what goes wrong and what is asked for."""
    opened = browser.new_page(viewport={"width": 900, "height": 1000})
    opened.troubles, opened.asked = [], []
    opened.on("console", lambda message: opened.troubles.append(message.text))
    opened.on("pageerror", lambda error: opened.troubles.append(str(error)))
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.goto((reported[0] / "page.html").as_uri())
    yield opened
    opened.close()


def test_it_renders_without_errors_and_asks_for_nothing(page):
    assert page.title() == "Privacy report"
    assert page.locator("h2").count() >= 9
    assert page.locator("figure svg").first.bounding_box()["height"] > 100
    assert page.troubles == []
    assert len(page.asked) == 1
    assert page.asked[0].startswith("file:")
    assert page.evaluate("document.scripts.length") == 0


def test_it_prints_on_two_pages(page):
    pdf = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 2


@pytest.mark.parametrize("width", [320, 480, 1400])
def test_no_screen_is_too_narrow(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_checklist_works_with_the_keyboard_alone(page):
    ticked, reached = 0, set()
    boxes = page.locator("input[type=checkbox]").count()
    for _ in range(boxes + 12):
        page.keyboard.press("Tab")
        kind = page.evaluate("document.activeElement.tagName")
        if kind == "BODY":  # once around
            break
        reached.add(kind)
        if kind == "INPUT":
            page.keyboard.press("Space")
            ticked += 1
        if kind == "SUMMARY":
            page.keyboard.press("Enter")
            assert page.locator("details").first.evaluate("e => e.open")
        width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert width >= 2
    assert ticked == boxes == page.locator("input:checked").count()
    assert {"INPUT", "SUMMARY", "DIV"} <= reached


def test_every_text_has_enough_contrast(page):
    """At least 4.5 : 1, as WCAG AA asks."""
    assert page.evaluate(CONTRAST) == []


def test_boxes_and_pictures_have_names(page):
    assert page.locator("input[type=checkbox]").evaluate_all(
        "boxes => boxes.every(b => b.labels.length === 1 && b.labels[0].innerText.length > 10)"
    )
    assert page.locator("svg:not([aria-hidden])").evaluate_all(
        "all => all.every(s => s.getAttribute('aria-label').length > 10)"
    )


def test_maps_per_label_stand_side_by_side_and_print_on_two_pages(browser, tmp_path):
    X = make_haystack(1500, 6, 2, inlier_noise=0.05, random_state=3).X
    options = {
        "center": None,
        "scale": None,
        "summaries": ("scores", "scree"),
        "labels": ("a", "b"),
    }
    fit = PrivateRobustPCA(2, epsilon=4.0, **options).fit(X, np.tile(["a", "b", "c"], 500))
    save_model(fit, tmp_path / "model.npz")
    write_report(load_model(tmp_path / "model.npz"), tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 900, "height": 1000})
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator(".maps .label").all_inner_texts() == ["a", "b", "other"]
    tops = page.locator(".maps svg").evaluate_all("s => s.map(e => e.getBoundingClientRect().top)")
    assert max(tops) - min(tops) < 1.0
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) == 2
    page.close()
