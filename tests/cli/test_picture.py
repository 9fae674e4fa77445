"""The picture: well-formed, every request in it, readable in light and dark."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import pytest

from outlast.cli import picture
from outlast.cli.record import Outcome, Run, Sample
from tests.cli import made_up

SVG = "{http://www.w3.org/2000/svg}"


def parsed(run: Run) -> ElementTree.Element:
    return ElementTree.fromstring(picture.draw(run))


def panels(run: Run) -> list[ElementTree.Element]:
    return parsed(run).findall(f"{SVG}g")


def marks(panel: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    """Where the marks of a kind are."""
    paths = [path for path in panel.iter(f"{SVG}path") if path.get("class") == kind]
    found = [re.findall(r"M(\S+) (\d+\.\d)", path.get("d", "")) for path in paths]
    return [(float(x), float(y)) for path in found for x, y in path]


def texts(element: ElementTree.Element) -> str:
    return "\n".join("".join(text.itertext()) for text in element.iter(f"{SVG}text"))


def test_every_request_is_in_the_picture() -> None:
    run = made_up.run()
    for panel, series in zip(panels(run), run.series, strict=True):
        answered = [one for one in series.samples if one.outcome is Outcome.OK]
        assert len(marks(panel, series.library)) == len(answered)
        assert len(marks(panel, "error")) == len(series.samples) - len(answered)


def test_panels_say_whose_they_are_and_the_figures() -> None:
    said = [texts(panel).splitlines()[:2] for panel in panels(made_up.run())]
    assert said == [
        ["httpxpooled connections", "1 error in 31 requests; p50 2.0 ms, p99 5.0 s, slowest 5.0 s"],
        [
            "outlastpooled connections",
            "0 errors in 101 requests; p50 2.0 ms, p99 2.0 ms, slowest 250 ms",
        ],
        [
            "httpxa new connection for each request",
            "2 errors and 1 hung in 33 requests; p50 2.0 ms, p99 5.0 s, slowest 5.0 s",
        ],
        [
            "outlasta new connection for each request",
            "0 errors in 101 requests; p50 2.0 ms, p99 2.0 ms, slowest 150 ms",
        ],
    ]


@pytest.mark.parametrize(
    ("took", "height"),
    [(1e-6, 1.0), (0.0002, 1.0), (30.0, 0.0), (1e4, 0.0), ((0.0002 * 30.0) ** 0.5, 0.5)],
)
def test_the_scale_is_logarithmic_and_ends_at_the_edges(took: float, height: float) -> None:
    run = dataclasses.replace(
        made_up.run(), series=(made_up.series("httpx", "new", [Sample(5.0, took)]),)
    )
    ((x, y),) = marks(panels(run)[0], "httpx")
    assert x == pytest.approx(picture.PANEL_WIDTH / 2, abs=0.06)
    assert y == pytest.approx(picture.PANEL_HEIGHT * height, abs=0.06)


def test_marks_stay_inside_their_panel() -> None:
    for panel in panels(made_up.run()):
        for x, y in (
            place for kind in ("httpx", "outlast", "error") for place in marks(panel, kind)
        ):
            assert 0 <= x <= picture.PANEL_WIDTH
            assert 0 <= y <= picture.PANEL_HEIGHT


def test_events_are_drawn_in_every_panel_and_their_text_is_escaped() -> None:
    for panel in panels(made_up.run()):
        lines = [path for path in panel.iter(f"{SVG}path") if path.get("class") == "event"]
        assert len(lines) == 2
        assert "node b loses power" in texts(panel)
        assert "endpoint <leaves>" in texts(panel)
    assert "on a place & another" in texts(parsed(made_up.run()))


def test_the_outage_is_shaded_to_the_second_event_or_to_the_end() -> None:
    def shade(run: Run) -> tuple[float, float]:
        (rect,) = (r for r in panels(run)[0].iter(f"{SVG}rect") if r.get("class") == "outage")
        return float(rect.get("x", "")), float(rect.get("width", ""))

    run, unit = made_up.run(), picture.PANEL_WIDTH / 10
    assert shade(run) == pytest.approx((3 * unit, 5 * unit), abs=0.1)
    cut = dataclasses.replace(run, happenings=run.happenings[:1])
    assert shade(cut) == pytest.approx((3 * unit, 7 * unit), abs=0.1)


def test_every_class_has_a_colour_in_both_schemes() -> None:
    root = parsed(made_up.run())
    light, _, dark = (root.findtext(f"{SVG}style") or "").partition("@media")
    used = {word for one in root.iter() for word in one.get("class", "").split()}
    for name in used - {"title", "name", "way"}:
        assert re.search(rf"\.{name} {{ (fill|stroke): #", light), name
        assert re.search(rf"\.{name} {{ (fill|stroke): #", dark), name


def test_one_way_to_use_connections_makes_one_row() -> None:
    run = made_up.run()
    half = dataclasses.replace(run, series=run.series[:2])
    assert len(panels(half)) == 2
    assert float((parsed(half).get("viewBox") or "").split()[3]) == pytest.approx(
        float((parsed(run).get("viewBox") or "").split()[3]) - picture.ROW
    )


def test_the_ways_of_one_client_are_side_by_side() -> None:
    run = made_up.run()
    pair = dataclasses.replace(run, series=tuple(s for s in run.series if s.library == "outlast"))
    root = ElementTree.fromstring(picture.draw_ways(pair))
    shown = root.findall(f"{SVG}g")
    assert [texts(panel).splitlines()[0] for panel in shown] == [
        "outlastpooled connections",
        "outlasta new connection for each request",
    ]
    found = [re.findall(r"[\d.]+", panel.get("transform", "")) for panel in shown]
    places = [[float(number) for number in place] for place in found]
    assert places[0][0] < places[1][0]
    assert places[0][1] == places[1][1]
    assert "answered\n" in texts(root)
    assert "httpx" not in texts(root)


def test_dots_on_each_other_are_one_but_no_error_is_left_out() -> None:
    run = made_up.run()
    samples = [Sample(5.0 + n / 1e4, 0.002) for n in range(100)] + [
        Sample(5.0 + n / 1e4, 0.002, Outcome.ERROR, "ConnectError") for n in range(7)
    ]
    crowd = dataclasses.replace(run, series=(made_up.series("aiohttp", "new", samples),))
    (panel,) = ElementTree.fromstring(picture.draw_ways(crowd)).findall(f"{SVG}g")
    text = ElementTree.tostring(panel, "unicode")
    (dots,) = re.findall(r'class="httpx" d="([^"]+)"', text)
    assert dots == f"M{picture.PANEL_WIDTH // 2} {round(picture._y(0.002) / 2) * 2}h0"
    assert len(marks(panel, "error")) == 7
