"""The application around every dashboard: what strangers, other sites and scripts in names can do with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import httpx
import pytest
from fakes.clock import FakeClock
from fakes.randomness import SeededRandomness

from broker_common.dashboard.access import COOKIE, Access, Rank
from broker_common.dashboard.site import Action, Health, Page, Site, make_app
from broker_common.errors import RefusedError
from broker_common.language import Language

KEY = "the key"
SCRIPT = '<script>alert("x")</script>'


class World:
    """A dashboard with one page for everybody, one for staff, and one action."""

    def __init__(self) -> None:
        self.done: list[Mapping[str, str]] = []
        self.refuse = False
        self.told_staff = 0
        self.site = Site(
            name=SCRIPT,
            clock=FakeClock(),
            access=Access(clock=FakeClock(), randomness=SeededRandomness(), key=KEY),
            pages=[
                Page("/", "missing.html", "Public face", Rank.READER, _nothing, self._tell_staff),
                Page("/people", "missing.html", "Budgets of people", Rank.STAFF, _nothing),
            ],
            actions=[Action("/shutdown", "/", self._shut_down)],
            health=lambda: Health(False, ("The node's process is not running.",)),
            metrics=lambda: b"tripartite_up 0\n",
            version=lambda: 7,
            hosts=frozenset({"127.0.0.1"}),
        )
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(make_app(self.site)),
            base_url="https://127.0.0.1:8000",
            follow_redirects=False,
        )

    def _tell_staff(self, _: Language) -> Mapping[str, Any]:
        self.told_staff += 1
        return {}

    def _shut_down(self, form: Mapping[str, str]) -> str:
        if self.refuse:
            raise RefusedError("NOT_SHUT_DOWN")
        self.done.append(form)
        return "The service is shut down."

    async def sign_in(self) -> str:
        """The session's token, as the page's forms carry it."""
        answer = await self.client.get("/", params={"key": KEY})
        assert answer.status_code == 303
        page = await self.client.get("/", params={"signed-in": "yes"})
        assert (page.status_code, page.headers["location"]) == (303, "/")
        page = await self.client.get("/")
        found = re.search(r'name="token" value="([0-9a-f]+)"', page.text)
        assert found is not None
        return found[1]


def _nothing(_: Language) -> Mapping[str, Any]:
    return {}


@pytest.fixture
def world() -> World:
    """One dashboard."""
    return World()


async def test_every_response_forbids_what_no_page_needs(world: World) -> None:
    """No inline code, no third party, no frame, no cache, also on errors and static files."""
    for path in ("/", "/people", "/nowhere", "/metrics", "/static/style.css", "/static/live.js"):
        answer = await world.client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe-inline" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"


async def test_pages_hold_no_inline_code_and_name_nobody_else(world: World) -> None:
    """Pages avoid what the policy forbids; nothing is fetched from another host."""
    text = (await world.client.get("/")).text
    assert not re.search(r"<script(?![^>]*src=)", text)
    assert not re.search(r"\son[a-z]+=|\sstyle=", text)
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text)


async def test_another_host_s_name_is_refused(world: World) -> None:
    """A page whose name was made to lead here (DNS rebinding) is told nothing, metrics included."""
    for path in ("/", "/metrics", "/readyz", "/events"):
        answer = await world.client.get(path, headers={"host": "evil.example"})
        assert answer.status_code == 421
        assert "tripartite" not in answer.text


async def test_staff_pages_are_not_shown_to_readers(world: World) -> None:
    """Neither the page nor its name in the navigation."""
    answer = await world.client.get("/people")
    assert answer.status_code == 403
    assert "Budgets of people" not in (await world.client.get("/")).text
    await world.sign_in()
    assert "Budgets of people" in (await world.client.get("/")).text


async def test_what_is_for_the_staff_is_not_even_computed_for_a_reader(world: World) -> None:
    """A page that everybody may see can say more to the staff; a template could not show it to a reader by mistake."""
    await world.client.get("/")
    assert world.told_staff == 0
    await world.sign_in()
    assert world.told_staff == 1


async def test_a_session_cookie_is_for_our_pages_alone(world: World) -> None:
    """A random id, for no script, over no clear channel, on no request of another site; the key leaves the address."""
    answer = await world.client.get("/", params={"key": KEY})
    assert answer.headers["location"] == "/?signed-in=yes"
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "secure", "samesite=strict"))
    assert re.search(rf"{COOKIE}=[0-9a-f]{{64}};", cookie)
    assert KEY not in cookie


async def test_a_wrong_key_signs_nobody_in(world: World) -> None:
    """No cookie is set for it."""
    answer = await world.client.get("/", params={"key": KEY + "x"})
    assert "set-cookie" not in answer.headers


async def test_a_browser_that_keeps_no_cookie_is_told(world: World) -> None:
    """Safari keeps no Secure cookie without TLS: its user reads that, instead of a public face that seems to be all."""
    world.client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    answer = await world.client.get("/", params={"key": KEY}, follow_redirects=True)
    assert answer.status_code == 403
    assert "You are not signed in" in answer.text


async def act(world: World, token: str, **headers: str) -> int:
    """Send the form of the action; gives the status."""
    answer = await world.client.post(
        "/shutdown", data={"token": token, "reason": "drill", "sure": "yes"}, headers=headers
    )
    return answer.status_code


async def test_an_action_needs_the_session_s_own_token(world: World) -> None:
    """Another site can make a browser send a form and a cookie, but does not know the token."""
    token = await world.sign_in()
    assert await act(world, "") == 403
    assert await act(world, "0" * 64) == 403
    assert not world.done
    assert await act(world, token) == 200
    assert [form["reason"] for form in world.done] == ["drill"]


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
async def test_an_action_of_another_site_is_refused(world: World, headers: dict[str, str]) -> None:
    """Even with the right token: the browser says where the form comes from."""
    assert await act(world, await world.sign_in(), **headers) == 403
    assert not world.done


async def test_a_reader_cannot_act(world: World) -> None:
    """Without a session nothing is done, whatever the form holds."""
    assert await act(world, "0" * 64) == 403
    assert not world.done


async def test_what_cannot_be_done_is_said(world: World) -> None:
    """The operator reads the sentence and the hint of the refusal."""
    world.refuse = True
    token = await world.sign_in()
    answer = await world.client.post("/shutdown", data={"token": token})
    assert answer.status_code == 409
    assert RefusedError("NOT_SHUT_DOWN").text in answer.text


async def test_names_that_are_scripts_are_shown_as_text(world: World) -> None:
    """An organisation, a researcher, a project or a reason may be called anything."""
    text = (await world.client.get("/")).text
    assert "<script>alert" not in text
    assert "&lt;script&gt;" in text


async def test_a_huge_form_is_refused(world: World) -> None:
    """Nobody fills the memory with a reason."""
    token = await world.sign_in()
    answer = await world.client.post("/shutdown", data={"token": token, "reason": "x" * 20_000})
    assert answer.status_code == 403


async def test_probes_and_metrics_need_no_session(world: World) -> None:
    """For the tools of the operator on call."""
    assert (await world.client.get("/healthz")).text == "ok\n"
    ready = await world.client.get("/readyz")
    assert (ready.status_code, ready.json()["problems"]) == (503, ["The node's process is not running."])
    assert (await world.client.get("/metrics")).text == "tripartite_up 0\n"


@pytest.mark.parametrize(("header", "expected"), [("fr-CA,fr;q=0.9", "fr"), ("de,en;q=0.5", "en"), ("", "en")])
async def test_the_reader_s_language_is_spoken(world: World, header: str, expected: str) -> None:
    """As the browser asks for it, until the reader chooses."""
    text = (await world.client.get("/", headers={"accept-language": header})).text
    assert f'<html lang="{expected}">' in text


async def test_a_chosen_language_stays(world: World) -> None:
    """The choice is kept in a cookie and wins over the browser's."""
    await world.client.get("/", params={"lang": "fr"})
    text = (await world.client.get("/", headers={"accept-language": "en"})).text
    assert "existe pas" in text


async def test_every_page_weighs_little() -> None:
    """Style, script and page together stay under 100 kB."""
    world = World()
    paths = ("/", "/static/style.css", "/static/live.js", "/static/icon.svg")
    assert sum([len((await world.client.get(path)).content) for path in paths]) < 100_000


def test_events_are_told_from_any_thread() -> None:
    """Telling before the site serves is no error: there is nobody to tell yet."""
    tell: Callable[[], None] = World().site.tell
    tell()


# --- streams -----------------------------------------------------------------------------------------------------------


class Listener:
    """A page that listens for news, straight at the application."""

    def __init__(self, world: World) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._asked = False
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "path": "/events",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1")],
        }
        self._app, self._scope = make_app(world.site), scope
        self.ended = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self._app(self._scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body" and message["body"]:
            self.heard.put_nowait(message["body"].decode())

    def leave(self) -> None:
        self._gone.set()


async def test_a_page_that_goes_away_frees_its_stream(world: World) -> None:
    """A browser that opens and closes pages all day leaves nothing behind, and later visitors are told of news."""
    for _ in range(3):
        listeners = [Listener(world) for _ in range(64)]
        for each in listeners:
            assert "data: 7" in await each.heard.get()
        refused = await world.client.get("/events")
        assert refused.status_code == 503
        for each in listeners:
            each.leave()
            await each.ended
        assert not world.site._news


async def test_news_reach_every_open_page_once(world: World) -> None:
    """A thousand pieces of news while a page is slow are one: it asks for the newest state anyway."""
    world.site.begin()
    listeners = [Listener(world) for _ in range(3)]
    for each in listeners:
        await each.heard.get()
    for _ in range(1000):
        world.site.tell()
    for each in listeners:
        assert "event: state" in await each.heard.get()
        assert each.heard.qsize() <= 1
        each.leave()
        await each.ended


async def test_a_server_that_stops_ends_its_streams(world: World) -> None:
    """They would not end by themselves, and what is cut off is reported as an error."""
    listener = Listener(world)
    await listener.heard.get()
    world.site.end_streams()
    await listener.ended
    assert not world.site._news


async def test_an_operator_s_old_page_is_told_why_its_order_was_refused(world: World) -> None:
    """After a restart its token is of the dashboard before: the operator is not sent to sign in, but to open the page again."""
    await world.sign_in()
    answer = await world.client.post("/shutdown", data={"token": "0" * 64, "reason": "drill", "sure": "yes"})
    assert answer.status_code == 403
    assert "the dashboard was started again" in answer.text
    assert not world.done


async def test_a_browser_may_say_where_our_forms_come_from(world: World) -> None:
    """With "no-referrer" it says `Origin: null` of our own forms, which no order survives."""
    assert (await world.client.get("/")).headers["referrer-policy"] == "same-origin"
    token = await world.sign_in()
    assert await act(world, token, origin="null") == 403
    assert await act(world, token, origin="https://127.0.0.1:8000") == 200
