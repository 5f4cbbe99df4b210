"""The lab's application: what every answer forbids, what an address may say, and what the site refuses."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from html import unescape

import httpx
import pytest

from broker_common.language import LANGUAGES, language
from policy_lab.document.model import Bars, Heat, Lines
from policy_lab.figures.figure import FIGURES
from policy_lab.site.explainer import explainer_file
from policy_lab.site.pages import SHOWN, make_app

PATHS = (
    "/",
    "/local-noise",
    "/nowhere",
    "/figures/nowhere",
    "/static/figure.js",
    *(f"/figures/{key}" for key in SHOWN),
)
SCRIPT = '<script>alert("x")</script>'


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """Somebody on this machine."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(make_app()), base_url="http://127.0.0.1:8000") as made:
        yield made


@pytest.mark.parametrize("path", PATHS)
async def test_every_answer_forbids_what_no_page_needs(client: httpx.AsyncClient, path: str) -> None:
    """No inline code, no third party, no frame, also on errors and static files."""
    answer = await client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(answer.headers.get_list("content-security-policy")) == 1


@pytest.mark.parametrize("path", ["/", *(f"/figures/{key}" for key in SHOWN)])
async def test_pages_hold_no_inline_code_and_fetch_from_nobody(client: httpx.AsyncClient, path: str) -> None:
    """Pages avoid what the policy forbids."""
    text = (await client.get(path)).text
    assert not re.search(r"<script(?![^>]*src=)", text)
    assert not re.search(r"\son[a-z]+=|\sstyle=", text)
    assert not re.search(r'(?:src|srcset|href|action)="(?:https?:)?//', text)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
async def test_another_host_s_name_is_refused(client: httpx.AsyncClient, host: str) -> None:
    """A page of another site whose name was made to lead here is told nothing."""
    for path in PATHS:
        answer = await client.get(path, headers={"host": host})
        assert (answer.status_code, answer.text) == (421, "unknown host")


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("key", SHOWN)
async def test_every_plot_has_its_own_address(client: httpx.AsyncClient, key: str, code: str) -> None:
    """Each that a figure has, light and dark, wide and narrow, as an image that runs nothing.

    Of each plot two are asked for in each language, so that all four are in one of them: drawing is most of the work here.
    """
    figure = SHOWN[key]
    named = {block.key for block in figure.draw(figure.values({})).blocks if isinstance(block, Lines | Bars | Heat)}
    page = (await client.get(f"/figures/{key}", headers={"accept-language": code})).text
    addresses = [unescape(each) for each in re.findall(r'(?:src|srcset)="(/figures/[^"]+)"', page)]
    assert len(addresses) == 4 * len(named) > 0
    assert all(f"/{code}/" in address for address in addresses)
    kinds = (("wide/light", "narrow/dark"), ("wide/dark", "narrow/light"))[LANGUAGES.index(code)]
    asked = [address for address in addresses if any(f"/{kind}/" in address for kind in kinds)]
    assert len(asked) == 2 * len(named)
    for address in asked:
        answer = await client.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
        assert "<script" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/figures/tradeoff/plots/en/wide/light/nothing.svg",
        "/figures/tradeoff/plots/de/wide/light/belief_by_answers.svg",
        "/figures/tradeoff/plots/en/huge/light/belief_by_answers.svg",
        "/figures/tradeoff/plots/en/wide/pink/belief_by_answers.svg",
        "/figures/tradeoff/plots/en/wide/light/belief_by_answers.svg?cap=NaN",
        "/figures/nothing/plots/en/wide/light/belief_by_answers.svg",
    ],
)
async def test_a_plot_that_there_is_not_is_a_page_that_says_so(client: httpx.AsyncClient, path: str) -> None:
    """With the status that says the same to programs."""
    answer = await client.get(path)
    assert answer.status_code == 404
    assert "There is no such page" in answer.text


@pytest.mark.parametrize(
    "query", ["cap=NaN", "cap=", "cap=1e308", "cap=80.5", "cap=%00", f"cap={'9' * 4000}", f"cap={SCRIPT}", "cpa=80"]
)
async def test_a_bad_setting_is_an_error_in_words(client: httpx.AsyncClient, query: str) -> None:
    """With its bounds or the nearest name, in both languages, and never as part of the page's own code."""
    for code in LANGUAGES:
        answer = await client.get(f"/figures/tradeoff?{query}&scale=50", headers={"accept-language": code})
        assert answer.status_code == 400
        alert = re.search(r'<div class="alert" role="alert">(.*?)</div>', answer.text, re.DOTALL)
        assert alert is not None
        assert ("cap" if query.startswith("cpa") else "51") in alert[1]
        assert "<script>" not in answer.text
        # The settings that were right stay as they are, so that there is one thing to put right.
        assert re.search(r'id="scale"[^>]* value="50"', answer.text)


async def test_answers_to_the_form_stand_in_no_address(client: httpx.AsyncClient) -> None:
    """The figure of the health form is the page that computes in the browser alone."""
    answer = await client.get("/figures/form?height=181&smoking=daily")
    assert (answer.status_code, answer.headers["location"]) == (303, "/local-noise")
    assert set(SHOWN) == set(FIGURES) - {"form"}


async def test_the_language_is_kept_and_so_are_the_sliders(client: httpx.AsyncClient) -> None:
    """A reader who goes on in French sees the same figure in French."""
    answer = await client.get("/figures/tradeoff?cap=70&lang=fr")
    assert (answer.status_code, answer.headers["location"]) == (303, "/figures/tradeoff?cap=70")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("tripartite-language=fr;")
    page = await client.get("/figures/tradeoff?cap=70", headers={"cookie": "tripartite-language=fr"})
    assert '<html lang="fr">' in page.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_nothing_can_be_changed(client: httpx.AsyncClient, method: str) -> None:
    """The site holds nothing; it answers questions alone."""
    assert (await client.request(method, "/figures/tradeoff")).status_code == 405


@pytest.mark.parametrize("code", LANGUAGES)
async def test_the_explainer_may_connect_to_nothing_and_runs_its_own_script_alone(
    client: httpx.AsyncClient, code: str
) -> None:
    """Its own words, which a file keeps, and those of the server forbid it; the script is the one whose hash they name."""
    answer = await client.get("/local-noise", headers={"accept-language": code})
    for text, policy in (
        (answer.text, answer.headers["content-security-policy"]),
        (answer.text, _policy_inside(answer.text)),
        (explainer_file(language(code)), _policy_inside(explainer_file(language(code)))),
    ):
        assert "connect-src 'none'" in policy
        assert "form-action 'none'" in policy
        assert "default-src 'none'" in policy
        script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
        assert script is not None
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()}'" in policy
        assert "unsafe" not in policy
    assert not re.search(r'(?:src|href|srcset|action)="(?!data:|#|/|\?)', answer.text)


def _policy_inside(text: str) -> str:
    found = re.search(r'http-equiv="content-security-policy" content="([^"]*)"', text)
    assert found is not None
    return unescape(found[1])
