"""The report: its figures, its page in a browser, and what it does with half a run."""

import csv
import io
import re
import sys

import numpy as np
import pytest
from chromium import browser, find_browser
from report_store import fill

from fastcell.cli import main
from fastcell.errors import ExtraError, StoreError
from fastcell.report import write_report
from fastcell.report.evidence import Evidence
from fastcell.report.statistics import chance, kendall, wins
from fastcell.report.story import story, verdict
from fastcell.store import Store

pytest.importorskip(
    "matplotlib", reason="matplotlib is not installed: pip install fastcell[report]"
)


def evidence_of(folder, **options):
    fill(folder / "results.sqlite", **options)
    with Store(folder / "results.sqlite") as store:
        return Evidence.read(store)


@pytest.mark.parametrize("seed", range(5))
def test_kendall_is_scipys(seed):
    stats = pytest.importorskip("scipy.stats")
    a, b = np.random.default_rng(seed).integers(0, 8, (2, 30)) / 8
    assert kendall(a, b)[0] == pytest.approx(stats.kendalltau(a, b).statistic)


def test_the_error_of_kendall_is_its_spread_over_samples():
    """50 pairs drawn again and again: tau spreads as the jackknife says, to a tenth."""
    draws = np.random.default_rng(1)
    found = []
    for _ in range(300):
        a = draws.normal(size=50)
        found.append(kendall(a, a + draws.normal(size=50)))
    taus, errors = np.array(found).T
    assert np.median(errors) == pytest.approx(taus.std(), rel=0.15)


@pytest.mark.parametrize(
    ("ours", "theirs"), [([1, 2, 3], [4, 5, 6, 7]), ([1, 5, 3], [2, 6, 9]), ([4], [1, 2])]
)
def test_chance_is_mann_and_whitneys(ours, theirs):
    stats = pytest.importorskip("scipy.stats")
    test = stats.mannwhitneyu(ours, theirs, method="exact")
    assert chance(ours, theirs) == pytest.approx(test.pvalue)
    assert wins(theirs, ours)[0] == test.statistic


def test_chance_of_many_seeds():
    stats = pytest.importorskip("scipy.stats")
    ours, theirs = np.random.default_rng(3).normal(size=(2, 20))
    test = stats.mannwhitneyu(ours, theirs + 0.4, method="exact")
    assert chance(ours.tolist(), (theirs + 0.4).tolist()) == pytest.approx(test.pvalue, abs=0.02)


def test_the_story_has_the_numbers(tmp_path):
    evidence = evidence_of(tmp_path)
    told = " ".join(story(evidence))
    assert "Of 100,000 cells drawn from the space, 36,745 (36.7%) pass" in told
    assert "took 2.8 s on 2 threads; the source's search took 381.5 s" in told
    assert "30 cells were really trained, in 42 runs" in told
    assert "10 of 12 most promising" in told
    assert len(evidence.best.runs) == 5  # though another of the top has one seed, a luckier one
    assert f"The best cell, {evidence.best.name}, has test NMSE" in told


def test_the_verdict_leaves_out_the_seed_that_picked(tmp_path):
    evidence = evidence_of(tmp_path)
    said = {rival.name: verdict(evidence.best, rival) for rival in evidence.rivals}
    assert said["lstm"].startswith("Beats lstm: lower in 20 of 20 pairs of seeds")
    assert said["adding_dag"].startswith("Loses to adding_dag: lower in 0 of 20 pairs of seeds")


def test_order_and_predictions_agree_where_they_are_the_same(tmp_path):
    """Those of the top that did not diverge have just the predicted error."""
    evidence = evidence_of(tmp_path)
    done = [c for c in evidence.group("top") if c.first.status == "done"]
    assert [c.estimate.nmse for c in done] == pytest.approx([c.first.best_validation for c in done])
    assert "Kendall's tau 0." in " ".join(story(evidence))


@pytest.mark.parametrize(
    ("options", "there", "missing"),
    [
        ({}, ["Stages", "over the controls", "cross-validated", "All cells"], []),
        ({"most": 0}, ["Stages", "cross-validated"], ["All cells", "The best cell"]),
        ({"most": 5}, ["Stages", "All cells"], ["best cell and known"]),
        ({"planned": False}, ["All cells", "best cell and known"], ["Stages", "controls<"]),
    ],
)
def test_sections_without_data_are_left_out(tmp_path, options, there, missing):
    fill(tmp_path / "results.sqlite", **options)
    with Store(tmp_path / "results.sqlite") as store:
        page = write_report(store, tmp_path).read_text()
    assert all(title in page for title in there)
    assert not any(title in page for title in missing)


def test_the_page_needs_no_network(tmp_path):
    fill(tmp_path / "results.sqlite")
    with Store(tmp_path / "results.sqlite") as store:
        page = write_report(store, tmp_path).read_text()
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", page))
    assert {address.split("/")[2] for address in addresses} <= {"www.w3.org"}
    assert not re.findall(r"<(?:link|script|img)[^>]*(?:src|href)=\"(?!data:)", page)


def test_files_beside_it(tmp_path, capsys):
    fill(tmp_path / "results.sqlite")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path)])
    assert not ended.value.code
    folder = tmp_path / "report"
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    pictures = {path.stem: path.read_bytes()[:4] for path in folder.glob("*.png")}
    assert pictures == dict.fromkeys(("curves", "predictions", "groups", "calibration"), b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO((folder / "cells.csv").read_text())))
    assert [int(row["rank"]) for row in rows] == list(range(1, 31))


def test_an_empty_store(tmp_path):
    with Store(tmp_path / "results.sqlite") as store, pytest.raises(StoreError, match="found none"):
        write_report(store, tmp_path)


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    fill(tmp_path / "results.sqlite")
    with (
        Store(tmp_path / "results.sqlite") as store,
        pytest.raises(ExtraError, match=r"pip install fastcell\[report\]"),
    ):
        write_report(store, tmp_path)


DRAWN = "[...document.querySelectorAll('.chart svg')].map(e => e.getBoundingClientRect().width)"
COLUMN = "[...document.querySelectorAll('tbody:not([hidden]) [data-name={}]')].map(e => e.{})"


@pytest.mark.skipif(not find_browser(), reason="no Chromium: apt-get install chromium")
def test_in_a_browser(tmp_path):
    fill(tmp_path / "results.sqlite")
    with Store(tmp_path / "results.sqlite") as store:
        path = write_report(store, tmp_path)
    with browser(tmp_path / "profile") as page:
        page.open(path)
        assert page.requests == [path.as_uri()]
        assert page.evaluate("document.querySelectorAll('.chart svg').length") == 4
        assert page.evaluate(f"{DRAWN}.every(width => width > 100)")
        assert page.evaluate("document.querySelectorAll('#cells .picture svg .box').length") > 200
        check_sorting(page)
        check_searching(page)
        page.evaluate("document.querySelector('.open').click()")
        assert page.evaluate("document.querySelector('.more svg').getBoundingClientRect().width")
        for width in (390, 1280):
            page.size(width, 800)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.errors == []


def check_sorting(page):
    for name in ("seconds", "test", "cell"):
        page.evaluate(f"document.querySelector('[data-sort={name}]').click()")
        up = page.evaluate(COLUMN.format(name, "dataset.value"))
        page.evaluate(f"document.querySelector('[data-sort={name}]').click()")
        down = page.evaluate(COLUMN.format(name, "dataset.value"))
        if name == "test":
            values = [float(value) for value in up if value]
            assert values == sorted(values)
            assert [v for v in down if v] == [v for v in up if v][::-1]
            assert up[len(values) :] == down[len(values) :] == [""] * (30 - len(values))
    assert sorted(up) == sorted(down) != up


def check_searching(page):
    enter = (
        "e = document.getElementById('find'); e.value = '{}'; e.dispatchEvent(new Event('input'))"
    )
    page.evaluate(enter.format("LSTM"))
    assert page.evaluate(COLUMN.format("cell", "innerText")) == ["lstm"]
    page.evaluate(enter.format(""))
    assert len(page.evaluate(COLUMN.format("cell", "innerText"))) == 30
