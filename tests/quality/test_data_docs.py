"""Names and values of others in the Data Docs are text, in a browser too."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from strata_cdc.quality.checks.data_docs import hide, page_name, show
from strata_cdc.quality.checks.rules import Rule, frame_column
from strata_cdc.quality.checks.suite import SuiteJudge
from strata_cdc.runs.verdict import Severity
from tests.spark_session import spark

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["spark"]

MARK = "document.title='owned'"
HOSTILE = (
    f"<img src=x onerror={MARK}>",
    f"\"'><script>{MARK}</script>",
    f"[x](javascript:{MARK})",
    f"</script><svg onload={MARK}>",
    f"{{{{ ''.__class__ }}}} ${{column}} $column &lt;b onclick={MARK}&gt;",
    f"../../<iframe srcdoc='<script>parent.{MARK}</script>'>",
    f"`<details open ontoggle={MARK}>`",
)


class Page(HTMLParser):
    """What of a page a browser would act on, and the texts that it would show."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.acting, self.texts, self._in_script = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self._in_script = tag in ("script", "style")
        for name, value in attrs:
            acts = name.startswith("on") or name in ("src", "srcdoc") or (value or "").strip().startswith("javascript:")
            if acts and MARK in (value or ""):
                self.acting.append((tag, name, value))
            if "owned" in name:
                self.acting.append((tag, name, value))

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            if MARK in data:
                self.acting.append(("script", "", data))
        else:
            self.texts.append(data)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_hidden_is_shown_as_text(text):
    stored = json.dumps({"result": [{text: text}], "name": "expect_x", "of": 1.5})
    hidden = hide(stored)
    assert not set('<>&$`"') & set(json.loads(hidden)["result"][0].popitem()[1])
    assert json.loads(hidden)["name"] == "expect_x"
    ((name, value),) = json.loads(hidden)["result"][0].items()
    page = Page(show(f"<p title='{name}'>{value}</p>"))
    assert page.acting == []
    assert "".join(page.texts) == text


def test_names_of_pages():
    assert page_name("d.t 2026-11-22 00:00, version 3") != page_name("d.t 2026-11-22 00 00, version 3")
    assert page_name("d.t, version 3") == "d.t, version 3"
    names = [page_name(text) for text in (*HOSTILE, "x" * 300, "x" * 301, "\udc80", "大" * 128)]
    assert len(set(names)) == len(names)
    assert all(name.isascii() and "/" not in name and len(name) < 200 for name in names)


@pytest.fixture(scope="module")
def docs(spark, tmp_path_factory) -> Path:
    """Pages with hostile names in all places that have any."""
    folder = tmp_path_factory.mktemp("docs")
    judge = SuiteJudge()
    rows = [("g", 1, 0, 5, *HOSTILE), ("g", 2, 0, 6, *["fine"] * len(HOSTILE))]
    columns = [frame_column(text) for text in HOSTILE]
    frame = spark.createDataFrame(rows, ["_gtid", "_seq", "_row", "n", *[f"c{at}" for at in range(len(HOSTILE))]])
    frame = frame.toDF("_gtid", "_seq", "_row", "n", *columns)
    rules = [
        Rule("expect_column_to_exist", Severity.ERROR, text, {"column": f"no {text}", "column_index": 1})
        for text in HOSTILE
    ]
    rules += [
        Rule("expect_column_values_to_be_in_set", Severity.WARNING, text, {"column": column, "value_set": [text + "!"]})
        for text, column in zip(HOSTILE[:3], columns, strict=False)
    ]
    assert len(judge.run(f"{HOSTILE[0]} all versions", HOSTILE[0], frame, rules)) == len(rules)
    query = {"unexpected_rows_query": "SELECT * FROM {batch} WHERE n > 0", "description": HOSTILE[1]}
    few = [Rule("unexpected_rows_expectation", Severity.ERROR, HOSTILE[5], query)]
    assert len(judge.run(f"{HOSTILE[5]} all versions", HOSTILE[5], frame, few)) == 1
    judge.write_docs(str(folder))
    return folder


@pytest.mark.spark
@pytest.mark.slow
def test_every_name_and_value_is_text(docs):
    pages = sorted(docs.rglob("*.html"))
    assert len(pages) > 4
    shown = set()
    for path in pages:
        assert path.resolve().is_relative_to(docs.resolve())
        page = Page(path.read_text())
        assert page.acting == [], path
        whole = " ".join(page.texts)
        assert not any(0x10FE00 <= ord(one) < 0x10FF00 for one in whole)
        shown |= {text for text in HOSTILE if text in whole}
        for link in (part.split('"')[0] for part in path.read_text().split('href="')[1:]):
            target = unquote(link.split("?")[0].split("#")[0])
            if target.endswith(".html"):
                assert (path.parent / target).exists(), link
    assert shown == set(HOSTILE)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.browser
def test_a_browser_runs_nothing_of_it(docs):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]
    path = max(docs.rglob("*.html"), key=lambda page: page.stat().st_size)
    done = subprocess.run(
        [*command, f"--user-data-dir={docs}/profile", path.as_uri()], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"<title>owned" not in done.stdout
    assert b"</html>" in done.stdout
