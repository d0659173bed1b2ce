"""What a user does on the page of the console, and sees there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Locator, Page, Route, expect

from inorder.aws.inspection import machine_of
from inorder.aws.stack import Connection
from inorder.console.answers import Answers
from inorder.console.saved import read, write
from inorder.demo.report import FinalOutput, Result, write_report
from tests.conftest import picture
from tests.console import statechart
from tests.console.conftest import OUT, PARKED, SHOWN, STORY, STRANGE, Console, Opening, settled
from tests.stack.conftest import RED, SECONDS


def rows(page: Page) -> Locator:
    return page.locator(".all-rows [role=row]")


def box_of(element: Locator) -> Any:
    """Give where an element is on the page; None if it is not shown."""
    return element.bounding_box()


# The list


def test_filters_by_key_and_outcome_stay_in_the_address(page: Page) -> None:
    expect(rows(page).filter(has_text=STORY)).to_have_count(6)
    expect(page.get_by_role("status")).to_contain_text("executions since 2")
    page.get_by_role("searchbox").fill("HARBOUR")
    expect(rows(page)).to_have_count(6)
    page.get_by_role("button", name="Superseded").click()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("Superseded")
    assert page.url.endswith("#/executions?q=HARBOUR&outcome=Superseded")
    page.reload()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Clear filters").click()
    expect(rows(page).filter(has_text=STORY)).to_have_count(6)


def test_the_page_follows_an_execution_from_start_to_end(console: Console, page: Page) -> None:
    key = "live/followed.png"
    page.get_by_role("searchbox").fill(key)
    with console.held.holding("Invert Image", "after"):
        console.workflow.upload(key, picture(RED))
        running = rows(page).filter(has_text="Running")
        expect(running).to_have_count(1, timeout=SECONDS * 1000)
        running.get_by_role("link", name=key, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(key)
    outcome = page.locator("main > article > .title .badge")
    expect(outcome).to_have_text("Processed", timeout=SECONDS * 1000)
    expect(page.locator('.node[data-state="Processed"]')).to_have_class(re.compile("is-passed"))
    page.go_back()
    expect(rows(page).filter(has_text="Processed")).to_have_count(1)


def test_the_list_and_the_graph_are_used_by_keyboard(page: Page) -> None:
    settled(page)
    page.get_by_role("searchbox").fill("harbour")
    expect(rows(page)).to_have_count(6)
    rows(page).first.locator("a").first.focus()
    for _ in range(2):  # past the link to the timeline
        page.keyboard.press("Tab")
    expect(rows(page).nth(1).locator("a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    page.locator('.node[data-state="Claim Key"]').focus()
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.dataset.state")
    assert focused not in {"Claim Key", None}
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2, name=focused, exact=True)).to_be_visible()


def test_enter_opens_the_only_key_that_the_search_names(console: Console, page: Page) -> None:
    settled(page)
    for key in ("only/a.png", "only/a.png.png"):
        console.workflow.upload(key, picture(RED))
        console.workflow.of_key(key, 1)
    search, heading = page.get_by_role("searchbox"), page.get_by_role("heading", level=1)
    search.fill("only/")
    expect(rows(page)).to_have_count(2)
    search.press("Enter")
    expect(rows(page)).to_have_count(2)
    expect(heading).to_have_text("Executions")
    search.fill("only/a.png")  # a key, and a part of another one
    expect(rows(page)).to_have_count(2)
    search.press("Enter")
    expect(heading).to_have_text("only/a.png")
    page.go_back()
    search.fill("HARBOUR")
    expect(rows(page)).to_have_count(6)
    search.press("Enter")
    expect(heading).to_have_text(STORY)
    expect(page.locator("a.lane")).to_have_count(6)


# An execution


def of_story(console: Console, outcome: str, waited: bool = False) -> Any:
    return next(
        execution
        for execution in console.workflow.of_key(STORY, 6)
        if execution.outcome == outcome and bool(execution.waited) == waited
    )


def test_a_click_on_a_state_shows_its_data_and_errors(console: Console, opening: Opening) -> None:
    waiter = of_story(console, "Duplicate", waited=True)
    page = opening(console.view("execution", waiter.arn))

    def node(state: str) -> Locator:
        return page.locator(f'.node[data-state="{state}"]')

    def details(state: str) -> Locator:
        return page.get_by_role("region", name=f"State {state}")

    expect(node("Count Poll")).to_contain_text(re.compile("\N{MULTIPLICATION SIGN}[0-9]"))
    node("Claim Key").click()
    claim = details("Claim Key")
    expect(claim.get_by_role("region", name="Input")).to_contain_text(
        f'"sequencer": "{waiter.sequencer}"'
    )
    expect(claim.get_by_role("region", name="Output")).to_contain_text('"refusal"')
    definition = claim.get_by_role("region", name="Definition")
    expect(definition).to_be_hidden()
    claim.get_by_text("Definition", exact=True).click()
    expect(definition).to_contain_text("ConditionExpression")
    node("Record Newest Event").click()
    recorded = details("Record Newest Event")
    expect(recorded.get_by_role("table")).to_contain_text("succeeded")
    older = of_story(console, "Superseded")
    page.goto(console.view("execution", older.arn, state="Claim Key"))
    expect(node("Claim Key")).to_contain_text("caught")
    expect(claim).to_contain_text("DynamoDB.ConditionalCheckFailedException")
    [failed] = console.workflow.of_key(PARKED, 1)
    page.goto(console.view("execution", failed.arn))
    expect(node("Parked")).to_have_accessible_name(re.compile("failed"))
    expect(page.locator(".callout.bad").first).to_contain_text("InvalidImage: The file is text")


@pytest.mark.parametrize("width", [1280, 390])
def test_all_states_of_the_graph_fit_into_its_pane(
    console: Console, opening: Opening, width: int
) -> None:
    page = opening(console.view("execution", of_story(console, "Superseded").arn))
    page.set_viewport_size({"width": width, "height": 800})
    ask = "token => fetch('/api/definition', { headers: { 'X-Inorder-Token': token } })"
    definition = page.evaluate(f"{ask}.then((each) => each.json())", console.token)
    nodes = page.locator(".node")
    # Where they would be too small to read, only those that were passed are shown.
    is_narrow = width == 390
    passed = set(of_story(console, "Superseded").path)
    expect(nodes).to_have_count(len(passed if is_narrow else definition["States"]))
    room = box_of(page.locator(".graph-pane"))
    for box in nodes.evaluate_all("each => each.map((one) => one.getBoundingClientRect())"):
        assert room["x"] <= box["left"] < box["right"] <= room["x"] + room["width"]


def test_a_graph_with_text_below_9_pixels_can_be_enlarged(
    console: Console, opening: Opening
) -> None:
    page = opening(
        console.view("execution", of_story(console, "Superseded").arn, state="Claim Key")
    )
    page.set_viewport_size({"width": 1280, "height": 800})
    text = page.locator(".node").first.locator(".what")
    size = "one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a"
    enlarge = page.get_by_role("button", name="Enlarge the graph")
    expect(enlarge).to_have_attribute("aria-pressed", "false")
    assert text.evaluate(size) < 9
    enlarge.click()
    large = page.get_by_role("region", name="The graph, enlarged")
    expect(large).to_be_visible()
    assert text.evaluate(size) == pytest.approx(11.5, abs=0.01)
    assert large.evaluate("one => one.scrollWidth > one.clientWidth")
    room, selected = box_of(large), box_of(page.locator(".node.selected"))
    assert room["x"] <= selected["x"] < room["x"] + room["width"] - selected["width"]
    enlarge.click()
    expect(large).to_have_count(0)
    page.set_viewport_size({"width": 2400, "height": 800})
    expect(enlarge).to_have_count(0)
    assert text.evaluate(size) >= 9


def test_json_in_a_text_is_shown_as_json_without_markup(console: Console, opening: Opening) -> None:
    page = opening(console.address)

    def with_a_cause(route: Route) -> None:
        execution = route.fetch().json()
        cause = {"errorMessage": "<b>no</b>", "errorType": "ValueError"}
        fault = {"Error": "Parked", "Cause": json.dumps(cause)}
        execution["steps"][0]["input"] = {"fault": fault}
        route.fulfill(json=execution | {"error": "Parked", "cause": json.dumps(fault)})

    page.route("**/api/execution?*", with_a_cause)
    older = of_story(console, "Superseded")
    page.goto(console.view("execution", older.arn, state=older.path[0]))
    shown = page.get_by_role("region", name="Input")
    expect(shown).to_contain_text('"Cause": { "errorMessage": "<b>no</b>",')
    expect(page.locator(".callout.bad")).to_contain_text("Parked: ValueError: <b>no</b>")


# A key


def test_the_timeline_shows_who_waited_and_why_events_were_superseded(
    console: Console, opening: Opening
) -> None:
    page = settled(opening(console.view("key", STORY)))
    lanes = page.locator("a.lane")
    expect(lanes).to_have_count(6)
    waiter = lanes.filter(has=page.locator("rect.wait"))
    expect(waiter).to_have_count(1)
    expect(waiter).to_contain_text("waited")
    wait = box_of(waiter.locator("rect.wait"))
    started = lanes.filter(has_text="newest-")
    lock, work = (box_of(started.locator(f"rect.{name}")) for name in ("lock", "work"))
    # The holder starts the event that waits, so that it is done before its next poll.
    assert wait["x"] < lock["x"] <= work["x"]
    assert work["x"] + work["width"] <= lock["x"] + lock["width"] + 1
    superseded = lanes.filter(has_text="Superseded")
    expect(superseded).to_contain_text("by event 3")
    expect(superseded).to_have_accessible_name(
        re.compile("The newer event .* had been recorded at")
    )
    expect(page.locator("g.outputs .current")).to_have_text("event 3 · current")
    expect(page.locator(".verdict")).to_contain_text("The output is right.")
    expect(page.get_by_role("listitem").filter(has_text="had been recorded at")).to_be_visible()


def test_a_narrow_timeline_shows_that_there_is_more(console: Console, opening: Opening) -> None:
    page = settled(opening(console.view("key", STORY)))
    later, room = page.get_by_role("button", name="Later"), page.locator(".timeline-room")
    expect(later).to_have_count(0)
    page.set_viewport_size({"width": 400, "height": 1600})
    expect(room).to_have_class(re.compile("has-more"))
    current = page.locator("g.outputs .current rect")
    right = "one => one.getBoundingClientRect().right"
    assert current.evaluate(right) > 400
    for _ in range(5):  # the button may go away before a click of Playwright's comes
        page.evaluate("document.querySelector('button.later')?.click()")
        page.wait_for_timeout(500)  # it scrolls
    expect(later).to_have_count(0)
    expect(room).not_to_have_class(re.compile("has-more"))
    assert current.evaluate(right) <= 400


def test_a_parked_event_is_shown_with_what_helps(console: Console, opening: Opening) -> None:
    key = "parked/replaced.png"
    console.workflow.upload(key, b"no image")
    console.workflow.of_key(key, 1)
    page = settled(opening(console.view("key", key)))
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("Its event is parked: a person must decide.")
    expect(verdict).to_contain_text("Replace the object")
    expect(page.locator("main")).not_to_contain_text("inorder redrive")
    console.workflow.upload(key, picture(RED))
    console.workflow.of_key(key, 2)
    page.get_by_role("button", name="Read again").click()
    expect(verdict).to_contain_text("The output is right.")
    expect(page.get_by_role("listitem").filter(has_text="has overtaken it")).to_be_visible()


def test_markup_and_right_to_left_text_in_keys_stay_text(
    console: Console, opening: Opening
) -> None:
    page = opening(console.address)
    page.on("dialog", lambda _: pytest.fail("The key was executed."))
    cell = rows(page).locator("bdi").filter(has_text=SHOWN)
    expect(cell).to_have_attribute("dir", "auto")
    expect(page.get_by_role("link", name=f"Timeline of {SHOWN}")).to_be_visible()
    page.get_by_role("searchbox").fill(STRANGE + "?")  # a key without an execution can be asked for
    page.get_by_role("link", name=f"Timeline of {SHOWN}?").click()
    expect(page.locator(".verdict")).to_contain_text("There is nothing to compare.")
    page.goto(console.view("key", STRANGE))
    expect(page.get_by_role("heading", level=1)).to_have_text(SHOWN)
    page.locator("a.lane").click()
    page.locator('.node[data-state="Prepare Event"]').click()
    settled(page)
    assert page.locator("main img[src=x]").count() == 0
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text(SHOWN)


# The token


def test_the_console_needs_the_token_of_the_printed_address(
    console: Console, opening: Opening
) -> None:
    page = opening(console.view("key", STORY), token="of-an-earlier-run")
    heading = page.get_by_role("heading", level=1)
    wrong = page.get_by_text("The server does not know the token that this browser has.")
    expect(heading).to_have_text("This page needs its token")
    expect(wrong).to_be_visible()
    expect(page.locator("main")).not_to_contain_text(STORY)
    expect(page.locator(".stack")).not_to_contain_text(console.workflow.stack.name)
    page.goto(console.address)  # in the same tab: only what follows the # changes
    expect(page.locator(".stack")).to_contain_text(console.workflow.stack.name)
    expect(rows(page).filter(has_text=STORY)).to_have_count(6)
    assert "token" not in page.url
    refusal = {"status": 401, "json": {"error": "The token is wrong."}}
    page.route("**/api/executions*", lambda route: route.fulfill(**refusal))
    expect(heading).to_have_text("This page needs its token")
    expect(rows(page)).to_have_count(0)


def test_ten_thousand_executions_are_shown_in_portions(console: Console, opening: Opening) -> None:
    page = opening(console.view("key", STORY))

    def many(route: Route) -> None:
        answer = route.fetch().json()
        numbers = [{"arn": str(number), "key": f"{number:05}.jpg"} for number in range(10_000)]
        executions = [one | number for one in answer["executions"][:1] for number in numbers]
        route.fulfill(json=answer | {"executions": executions})

    page.route("**/api/executions*", many)
    page.goto(console.view("executions"))
    expect(page.get_by_text("10,000 executions")).to_be_visible()
    expect(rows(page)).to_have_count(200)
    page.get_by_role("button", name="Show 200 more").click()
    expect(rows(page).last).to_contain_text("00399.jpg")


# Every view: readable by everybody, on every screen

Screen = tuple[int, int, Literal["light", "dark"]]
SCREENS: tuple[Screen, ...] = ((320, 640, "light"), (1440, 800, "dark"))


def test_each_view_is_accessible_and_fits(console: Console, opening: Opening) -> None:
    waiter = of_story(console, "Duplicate", waited=True).arn
    [failed] = console.workflow.of_key(PARKED, 1)
    views = {
        "executions": console.view("executions"),
        "execution": console.view("execution", waiter, state="Claim Key"),
        "failed": console.view("execution", failed.arn),
        "key": console.view("key", STORY),
        "strange": console.view("key", STRANGE),
    }
    page = opening(console.address)
    for view, address in views.items():
        page.goto(address)
        page.wait_for_selector("main h1")
        assert_accessible_and_fits(settled(page), view, *SCREENS)
    without_token = opening(console.view("executions"), token=None)
    assert_accessible_and_fits(settled(without_token), "locked", *SCREENS)


def assert_accessible_and_fits(page: Page, view: str, *screens: Screen) -> None:
    for width, height, scheme in screens:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=OUT / f"{view}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        violations = [
            (violation["id"], violation["nodes"][0]["html"])
            for violation in Axe().run(page).response["violations"]
            if violation["impact"] in {"serious", "critical"}
        ]
        assert violations == [], view


# The saved page


@pytest.fixture(scope="module")
def answers(console: Console) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in console.workflow.local.environment.items():
            patch.setenv(name, value)
        aws = Connection(console.workflow.stack.name)
        yield read(Answers(aws, machine_of(aws)))


def test_a_saved_page_shows_the_same_without_a_server(
    answers: dict[str, Any], tmp_path: Path, opening: Opening
) -> None:
    write(tmp_path / "console.html", answers)
    page = opening((tmp_path / "console.html").as_uri())
    expect(page.get_by_text("This page was saved at")).to_be_visible()
    page.get_by_role("searchbox").fill(STORY)
    expect(rows(page)).to_have_count(6)
    rows(page).filter(has_text="Superseded").get_by_role("link", name=STORY, exact=True).click()
    expect(page.locator('.node[data-state="Superseded"]')).to_contain_text("passed")
    page.get_by_role("link", name="Timeline of this key").click()
    expect(page.locator("a.lane")).to_have_count(6)


# The report of the demonstration


@pytest.fixture
def report(answers: dict[str, Any], tmp_path: Path) -> str:
    """Write a report of two stacks, of which the first one has no executions; give its address."""
    image, counts = picture(RED), {"Object keys": 3, "Executions": 1234, "Stale outputs": 1}
    off = [FinalOutput(key, image, "new") for key in (STORY, STRANGE, PARKED)]
    on = [
        FinalOutput(STORY, image, "old"),
        FinalOutput(STRANGE, image, "new"),
        FinalOutput(PARKED, None, "missing"),
    ]
    nothing = answers | {"/api/executions": {"executions": []}, "/api/story": {}}
    results = {"off": Result(counts, off, nothing), "on": Result(counts, on, answers)}
    write_report(tmp_path / "index.html", "latest-wins", results)
    return (tmp_path / "index.html").as_uri()


def test_the_reports_pictures_open_the_timelines_of_their_stacks(
    report: str, opening: Opening
) -> None:
    page = opening(report)
    page.on("dialog", lambda _: pytest.fail("The key was executed."))
    off, on = (page.get_by_role("region", name=f"Coordination {state}") for state in ("off", "on"))
    expect(on.get_by_role("heading")).to_have_text("Coordination on: 1 of 3 stale, 1 missing")
    expect(on.get_by_role("link", name=PARKED)).to_contain_text("no output")
    expect(on.get_by_role("figure").first).to_have_text(f"{STORY}stale")
    stale = on.get_by_role("link", name=f"The old picture: {STORY}")
    assert stale.get_by_role("img").evaluate("one => one.naturalWidth") > 0
    stale.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(STORY)
    expect(page.locator("a.lane")).to_have_count(6)
    expect(page.locator("#report")).to_be_hidden()
    page.go_back()
    expect(page.locator("#report")).to_be_visible()
    on.get_by_role("link", name="All executions").click()
    expect(rows(page).filter(has_text=STORY)).to_have_count(6)
    rows(page).filter(has_text=SHOWN).first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(SHOWN)
    page.get_by_role("link", name="Report").click()
    off.get_by_role("link").last.click()
    expect(page.get_by_text("The saved page does not have this.")).to_be_visible()


def test_the_report_is_accessible_and_fits(report: str, opening: Opening) -> None:
    page = opening(report)
    assert page.evaluate("document.documentElement.lang") == "en"
    expect(page).to_have_title("The same events, without coordination and with it")
    assert_accessible_and_fits(page, "report", *SCREENS, (400, 800, "dark"))
    # Beside each other, so that one sees the same key twice.
    links = page.get_by_role("link", name=STORY)
    off, on = box_of(links.first), box_of(links.last)
    assert off["y"] == on["y"]
    assert off["x"] + off["width"] < on["x"]


def test_the_report_needs_no_script(browser: Browser, report: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(report)
    expect(page.get_by_role("table", name="What became of the events")).to_contain_text("1,234")
    expect(page.get_by_role("img", name=f"The old picture: {STORY}")).to_be_visible()
    page.context.close()


# README's statechart


def test_the_statechart_is_as_the_page_draws_it_now(browser: Browser) -> None:
    drawn = statechart.FILE.read_text(encoding="utf-8")
    assert statechart.drawn(browser) == drawn, "run python -m tests.console.statechart"
