"""The console's pages in a browser: two widths, both themes, by keyboard, with much in them."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import pkray
from pkray.serving.application import application
from pkray.serving.guard import Access
from tests.programs import PROGRAMS

pytestmark = pytest.mark.chromium

TOKEN = "t0ken-that-nobody-guesses"
MARKUP = "<img src=x onerror=document.title='taken'>"
ODD = "shop.<b>odd"
WIDTHS, THEMES = (1280, 390), ("light", "dark")
PAGES = {
    "home": "#/",
    "table": "#/table/shop.orders",
    "odd table": "#/table/shop.%3Cb%3Eodd",
    "query": "#/query/shop.sums",
    "sql": "#/sql",
    "cluster": "#/cluster",
}
_WAIT_MILLIS = 90_000
_MANY_TABLES = 500
_BRANCHES = 20
"""Of a union: with its scan, filter and projection each, they make 60 operators."""


class Server:
    """Serves a warehouse at a port of its own; may be begun again there."""

    def __init__(self, catalog: pkray.Catalog, **how: Any) -> None:
        self._made = application(catalog, Access(TOKEN), **how)
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        config = uvicorn.Config(self._made, log_config=None, lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        how = {"target": self._server.run, "kwargs": {"sockets": [self._listener]}}
        self._thread = threading.Thread(**how, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(_WAIT_MILLIS / 1000)
        self._listener.close()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path_factory.mktemp("pages")) as catalog:
        orders = catalog.create_table(
            "shop.orders",
            [("id", "BIGINT"), ("name", "STRING")],
            ["id"],
            options={"bucket": "4", "changelog-producer": "lookup"},
            comment="What was ordered",
        )
        for at in range(5):
            orders.upsert([{"id": each, "name": f"n{at}"} for each in range(100 * at + 20)])
        orders.tags.create("first")
        orders.branches.create("trial", tag="first")
        orders.branch("trial").upsert([{"id": 1, "name": "trial"}])
        odd = catalog.create_table(ODD, [("id", "INT"), (MARKUP, "STRING")], ["id"], comment=MARKUP)
        odd.upsert([{"id": 1, MARKUP: MARKUP}])
        text = "SELECT name, COUNT(*) AS n FROM shop.orders GROUP BY name"
        query = catalog.sql(text).materialize("shop.sums")
        query.wait({"shop.orders": orders.latest_snapshot().id}, _WAIT_MILLIS / 1000)
        yield catalog
        for each in catalog.queries():
            each.drop()


@pytest.fixture(scope="module")
def server(catalog: pkray.Catalog) -> Iterator[Server]:
    served = Server(catalog)
    yield served
    served.stop()


@contextmanager
def launched() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = PROGRAMS["chromium"].path
        # Who runs tests as root has no sandbox; /dev/shm is small in containers.
        words = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        opened = playwright.chromium.launch(executable_path=path, args=words)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800})
    made.set_default_timeout(_WAIT_MILLIS)
    expect.set_options(timeout=_WAIT_MILLIS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, server: Server) -> Page:
    page = context.new_page()
    page.goto(f"{server.url}?token={TOKEN}")
    return page


def show(page: Page, name: str) -> None:
    """Go to a page, and wait until what it asks for is there."""
    page.evaluate("place => { location.hash = place }", PAGES[name])
    settled(page)


def settled(page: Page) -> None:
    page.wait_for_function(
        "() => document.querySelector('main h1')"
        " && !document.querySelector('main').textContent.includes('It is being read.')"
    )


def grave(page: Page) -> list[str]:
    """Name what axe finds that keeps people from using the page."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {[node['html'] for node in each['nodes']][:3]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_hinders_nobody(page, name, width, theme):
    said: list[str] = []
    page.on("console", lambda each: said.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=theme)
    show(page, name)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert grave(page) == []
    assert said == []


def test_a_statement_is_written_and_run_by_keyboard(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Shift+Tab")  # the theme
    page.keyboard.press("Shift+Tab")  # the cluster
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.get_by_label("Statement").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("SELECT COUNT(*) AS n FROM shop.orders")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("cell", name="420")).to_be_visible()


def test_a_table_and_its_columns_are_completed(page):
    show(page, "sql")
    field = page.get_by_label("Statement")
    field.fill("")
    field.press_sequentially("SELECT 1 FROM shop.or")
    page.get_by_role("button", name="shop.orders").wait_for()
    field.press("Control+Space")
    expect(field).to_have_value("SELECT 1 FROM shop.orders")
    field.press_sequentially(" WHERE na")
    page.get_by_role("button", name="name", exact=True).click()
    expect(field).to_have_value("SELECT 1 FROM shop.orders WHERE name")


def test_an_answer_is_a_chart_and_its_plan_a_graph(page):
    show(page, "sql")
    page.get_by_label("Statement").fill(
        "SELECT id, id * 2 AS twice FROM shop.orders WHERE id < 3 ORDER BY id"
    )
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Chart", exact=True).click()
    expect(page.get_by_role("img", name="2: 4")).to_be_visible()
    page.get_by_role("button", name="Show its plan").click()
    expect(page.locator(".graph g").first).to_be_visible()
    assert grave(page) == []


def test_a_long_statement_before_leaves_the_page_as_narrow_as_it_was(page):
    page.set_viewport_size({"width": 390, "height": 800})
    show(page, "sql")
    text = f"SELECT {', '.join(f'id + {each} AS c{each}' for each in range(20))} FROM shop.orders"
    page.get_by_label("Statement").fill(text)
    page.get_by_role("button", name="Run").click()
    page.get_by_label("Before").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_theme_that_is_chosen_stays(page):
    page.get_by_label("Theme").select_option("dark")
    page.wait_for_function("() => localStorage.getItem('theme') === 'dark'")
    page.reload()
    settled(page)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("name", ["home", "odd table", "sql"])
def test_names_and_values_that_try_to_be_markup_stay_text(page, name):
    show(page, name)
    if name == "sql":
        page.get_by_label("Statement").fill(f"SELECT '{MARKUP.replace(chr(39), chr(39) * 2)}' AS x")
        page.get_by_role("button", name="Run").click()
    text = "<b>odd" if name == "home" else MARKUP
    expect(page.locator("main").get_by_text(text).first).to_be_visible()
    assert page.locator("main b, main img").count() == 0
    assert page.title() != "taken"


def test_rates_of_a_table_become_charts(page, catalog):
    show(page, "odd table")
    expect(page.get_by_text("Charts begin after 10 s")).to_be_visible()
    catalog.load_table(ODD).upsert([{"id": 2, MARKUP: "x"}])
    page.get_by_text("Rows a second that were committed").wait_for()
    page.get_by_text("Share of the time that writers waited").wait_for()
    assert grave(page) == []


def test_a_branch_leaves_the_time_line_where_it_began(page, catalog):
    table = catalog.load_table("shop.orders")
    began = table.tags.get("first").snapshot.id
    show(page, "table")
    drawn = page.get_by_role("img", name=f"branch trial from snapshot {began} with")
    own = table.branch("trial").snapshots().num_rows - 1
    expect(drawn.locator(".branch circle")).to_have_count(own)
    expect(page.get_by_role("row", name=f"Z {began} {own} ")).to_contain_text("trial")


def test_compactions_that_run_are_listed(page):
    def compacting(route: Any) -> None:
        found = route.fetch().json()
        begun = {"since": found["time"] - 5000, "files": 3, "bytes": 4096}
        at = {"partition": "{}", "bucket": 2, "levels": [0, 4], "output_level": 5}
        route.fulfill(json=found | {"compactions": [begun | at]})

    page.route("**/api/tables/shop.orders/load", compacting)
    show(page, "table")
    expect(page.get_by_role("row", name="0, 4 5 3 4.1 kB")).to_contain_text("5 s")


def test_the_statement_of_a_query_is_shown_and_the_event_time_of_its_operators(page):
    def timed(route: Any) -> None:
        found = route.fetch().json()
        for node in found["graph"]["nodes"]:
            node["watermark"] = 0 if node["type"] == "aggregate" else None
        route.fulfill(json=found)

    page.route("**/api/queries/shop.sums", timed)
    show(page, "query")
    expect(page.get_by_role("region", name="The SQL that")).to_contain_text("GROUP BY name")
    expect(page.get_by_role("cell", name="1970-01-01T00:00:00.000Z")).to_have_count(1)


def test_time_from_a_change_to_its_result_is_drawn(page):
    show(page, "query")
    expect(page.get_by_role("img", name="computing:")).to_be_visible()


@pytest.mark.parametrize(
    ("address", "links"), [("http://127.0.0.1:8265", 1), ("javascript:alert(1)", 0)]
)
def test_the_dashboard_of_ray_is_a_link_where_it_is_an_address(page, address, links):
    found = {"kind": "ray", "dashboard": address, "placed": [], "memory": {}}
    page.route("**/api/cluster", lambda route: route.fulfill(json=found))
    show(page, "cluster")
    expect(page.get_by_text("The tables are served on Ray.")).to_be_visible()
    expect(page.get_by_role("link", name="Ray's dashboard")).to_have_count(links)


def test_a_worker_that_has_much_more_to_do_stands_out(page):
    def skewed(route: Any) -> None:
        found = route.fetch().json()
        found["workers"] = 2
        for node in found["graph"]["nodes"]:
            node |= {"busy": 0.4, "busiest": 0.9 if node["type"] == "aggregate" else 0.5}
        route.fulfill(json=found)

    page.route("**/api/queries/shop.sums", skewed)
    show(page, "query")
    expect(page.get_by_role("columnheader", name="busiest worker")).to_be_visible()
    expect(page.locator("td .warn")).to_have_text("90 %")


def test_a_key_is_looked_up(page):
    show(page, "table")
    page.get_by_label("id", exact=True).fill("7")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_text("The row, as it is now")).to_be_visible()


@pytest.mark.parametrize(
    ("place", "button", "said"),
    [
        ("table", "Show the newest changes", "the newest snapshot first"),
        ("table", "Show what compaction did", "Compactions of the snapshots"),
        ("table", "Show rows", "100 rows of snapshot"),
        ("query", "Show the epochs before", "Epochs that changed the result"),
        ("query", "Show the rows that were left out", "Rows that came late: none."),
        ("query", "Verify the result", "equal at snapshot"),
    ],
)
def test_what_is_asked_for_at_a_page_is_shown(page, place, button, said):
    show(page, place)
    page.get_by_role("button", name=button).click()
    expect(page.get_by_text(said)).to_be_visible()


def test_a_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back(context, catalog):
    server = Server(catalog)
    page = context.new_page()
    try:
        page.goto(f"{server.url}?token={TOKEN}")
        settled(page)
        server.stop()
        expect(page.get_by_text("the server does not answer")).to_be_visible()
        expect(page.get_by_role("link", name="shop.orders")).to_be_visible()
        server.start()
        expect(page.get_by_text("the server does not answer")).to_be_hidden()
    finally:
        server.stop()


@pytest.fixture
def changing(context: BrowserContext, catalog: pkray.Catalog) -> Iterator[Page]:
    """A page of a server that changes what it is asked to."""
    server = Server(catalog, allow_changes=True)
    page = context.new_page()
    page.goto(f"{server.url}?token={TOKEN}")
    yield page
    server.stop()


def questions(page: Page, *, are_accepted: bool) -> list[str]:
    """Answer what the page asks, and remember it."""
    asked: list[str] = []

    def answer(dialog: Any) -> None:
        asked.append(dialog.message)
        dialog.accept() if are_accepted else dialog.dismiss()

    page.on("dialog", answer)
    return asked


def test_what_changes_is_asked_for_first(changing, catalog):
    asked = questions(changing, are_accepted=False)
    show(changing, "table")
    before = catalog.load_table("shop.orders").latest_snapshot().id
    changing.get_by_role("button", name="Expire old snapshots").click()
    changing.wait_for_function("() => true")
    expect(changing.get_by_role("button", name="Expire old snapshots")).to_be_enabled()
    said = "Nothing would go, as the table's options say."
    assert asked == [f"Expire old snapshots: shop.orders?\n{said}"]
    assert catalog.load_table("shop.orders").latest_snapshot().id == before


def test_a_table_is_compacted_after_a_question(changing, catalog):
    table = catalog.create_table("shop.levels", [("id", "INT")], ["id"])
    for each in range(2):
        table.upsert([{"id": each}])
    asked = questions(changing, are_accepted=True)
    changing.evaluate("location.hash = '#/table/shop.levels'")
    settled(changing)
    changing.get_by_role("button", name="Compact", exact=True).click()
    expect(changing.get_by_text("compacted", exact=True)).to_be_visible()
    expect(changing.get_by_role("cell", name="COMPACT", exact=True)).to_be_visible()
    assert asked == ["Compact: shop.levels?"]
    (file,) = table.files().to_pylist()
    assert (file["record_count"], file["level"] > 0) == (2, True)
    catalog.drop_table("shop.levels")


def test_an_expiry_says_what_goes_before_it_is_done(changing, catalog):
    table = catalog.create_table("shop.old", [("id", "INT")], ["id"])
    for each in range(3):
        table.upsert([{"id": each}])
    fewest = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table.alter.set_options(fewest)
    asked = questions(changing, are_accepted=True)
    changing.evaluate("location.hash = '#/table/shop.old'")
    settled(changing)
    changing.get_by_role("button", name="Expire old snapshots").click()
    expect(changing.get_by_text("snapshots have expired")).to_be_visible()
    assert "2 snapshots would go for good, with" in asked[0]
    assert table.snapshots().num_rows == 1
    catalog.drop_table("shop.old")


def test_a_query_goes_back_to_a_savepoint(changing, catalog):
    source = catalog.create_table("shop.events", [("id", "INT")], ["id"])
    source.upsert([{"id": 1}])
    query = catalog.sql("SELECT COUNT(*) AS n FROM shop.events").materialize("shop.counted")
    try:
        query.wait({"shop.events": 1}, _WAIT_MILLIS / 1000)
        query.savepoint("before", _WAIT_MILLIS / 1000)
        source.upsert([{"id": 2}])
        query.wait({"shop.events": 2}, _WAIT_MILLIS / 1000)
        query.stop(_WAIT_MILLIS / 1000)
        asked = questions(changing, are_accepted=True)
        changing.evaluate("location.hash = '#/query/shop.counted'")
        settled(changing)
        row = changing.get_by_role("row").filter(has_text="before")
        row.get_by_role("button", name="Go back to it").click()
        expect(changing.get_by_text("resumed from savepoint before")).to_be_visible()
        assert asked[0].startswith("Go back to it: before of shop.counted?")
        query.wait({"shop.events": 2}, _WAIT_MILLIS / 1000)
        assert catalog.load_table("shop.counted").to_arrow()["n"].to_pylist() == [2]
    finally:
        query.drop()
        catalog.drop_table("shop.events")


def test_a_tag_is_made_by_keyboard_and_deleted(changing, catalog):
    asked = questions(changing, are_accepted=True)
    show(changing, "odd table")
    changing.get_by_label("Name of the tag").fill("<i>tag")
    changing.keyboard.press("Tab")
    changing.keyboard.press("Enter")
    row = changing.get_by_role("row").filter(has_text="<i>tag")
    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert asked == [f"Create the tag: <i>tag of {ODD}?", f"Delete: tag <i>tag of {ODD}?"]
    assert changing.locator("main i").count() == 0
    assert catalog.load_table(ODD).tags.list().num_rows == 0


def test_a_table_goes_back_to_a_snapshot(changing, catalog):
    table = catalog.create_table("shop.back", [("id", "INT")], ["id"])
    for each in range(3):
        table.upsert([{"id": each}])
    asked = questions(changing, are_accepted=True)
    changing.evaluate("location.hash = '#/table/shop.back'")
    settled(changing)
    changing.get_by_label("Snapshot to name or go back to").select_option("2")
    changing.get_by_role("button", name="Roll back to the snapshot").click()
    expect(changing.get_by_text("snapshot 2 is the newest again")).to_be_visible()
    assert "removed for good" in asked[0]
    assert table.latest_snapshot().id == 2
    catalog.drop_table("shop.back")


def test_a_statement_is_kept_running_and_gets_a_savepoint(changing, catalog):
    questions(changing, are_accepted=True)
    show(changing, "sql")
    changing.get_by_label("Statement").fill("SELECT id FROM shop.orders WHERE id < 3")
    changing.get_by_label("Keep its rows in the table").fill("shop.few")
    changing.get_by_role("button", name="Keep it running").click()
    changing.get_by_role("link", name="shop.few").click()
    settled(changing)
    query = catalog.query("shop.few")
    try:
        newest = catalog.load_table("shop.orders").latest_snapshot().id
        query.wait({"shop.orders": newest}, _WAIT_MILLIS / 1000)
        changing.get_by_label("Name of the savepoint").fill("friday")
        changing.get_by_role("button", name="Make a savepoint").click()
        row = changing.get_by_role("row").filter(has_text="friday")
        row.get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        assert query.savepoints() == []
    finally:
        query.drop()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["odd table", "query", "sql"])
def test_a_page_with_changes_fits_a_phone_and_hinders_nobody(changing, name, theme):
    changing.set_viewport_size({"width": 390, "height": 800})
    changing.emulate_media(color_scheme=theme)
    show(changing, name)
    assert changing.evaluate("document.documentElement.scrollWidth") <= 390
    assert grave(changing) == []


def test_hundreds_of_tables_are_listed_and_sought(context, tmp_path: Path):
    with pkray.connect(tmp_path) as catalog:
        for each in range(_MANY_TABLES):
            catalog.create_table(f"many.t{each:03}", [("id", "INT")], ["id"])
        server = Server(catalog)
        page = context.new_page()
        try:
            page.goto(f"{server.url}?token={TOKEN}")
            expect(page.get_by_role("link", name="many.t")).to_have_count(_MANY_TABLES)
            page.get_by_label("Show names with").fill("t49")
            expect(page.get_by_role("link", name="many.t")).to_have_count(10)
        finally:
            server.stop()


def test_a_query_of_sixty_operators_is_drawn(page, catalog):
    parts = [
        f"SELECT id + {each} AS id, name FROM shop.orders WHERE id % {_BRANCHES} = {each}"
        for each in range(_BRANCHES)
    ]
    text = f"SELECT name, COUNT(*) AS n FROM ({' UNION ALL '.join(parts)}) GROUP BY name"
    query = catalog.sql(text).materialize("shop.wide")
    try:
        page.evaluate("location.hash = '#/query/shop.wide'")
        settled(page)
        drawn = page.locator(".graph g")
        expect(drawn.first).to_be_visible()
        assert drawn.count() >= 40
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert grave(page) == []
    finally:
        query.drop()
