"""Who is let in, and who is not."""

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient, WebSocketDenialResponse

from pkray.serving.guard import Access, Guard, cookie_name

TOKEN = "t0ken-that-nobody-guesses"
BASE = "http://localhost:8470"
GIVEN = {"Authorization": f"Bearer {TOKEN}"}


async def inside(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"inside {request.url.query} {len(await request.body())}")


def client(*hosts: str, base: str = BASE) -> TestClient:
    paths = ("/", "/health", "/a", "/evil.example/a")
    routes = [Route(path, inside, methods=["GET", "POST"]) for path in paths]
    guard = Guard(Starlette(routes=routes), Access(TOKEN, hosts))
    return TestClient(guard, base_url=base, follow_redirects=False)


def test_a_token_in_the_header_is_let_in():
    assert client().get("/a", headers=GIVEN).text == "inside  0"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"{cookie_name(8470)}=other"},
        {"Cookie": f"{cookie_name(8471)}={TOKEN}"},
        {"Cookie": f"pkray_token={TOKEN}"},
    ],
)
def test_all_else_is_not(headers):
    answer = client().get("/a", headers=headers)
    assert answer.status_code == 401
    assert "inside" not in answer.text


def test_health_needs_no_token():
    assert client().get("/health").status_code == 200


@pytest.mark.parametrize("path", ["/health/", "/health/../a", "//health", "/HEALTH"])
def test_what_is_like_the_path_of_health_does(path):
    assert client().get(path).status_code == 401


def test_the_first_request_of_a_browser_gets_a_cookie_for_the_token_in_its_url():
    answer = client().get("/", params={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{cookie_name(8470)}={TOKEN};")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))


def test_the_cookie_is_let_in():
    browser = client()
    browser.get("/", params={"token": TOKEN})
    assert browser.get("/a").status_code == 200


def test_what_else_is_in_the_url_stays():
    answer = client().get("/a", params={"x": "1", "token": TOKEN, "y": "a b"})
    assert answer.headers["location"] == "/a?x=1&y=a+b"


def test_a_token_that_is_wrong_gets_no_cookie():
    answer = client().get("/", params={"token": "other"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_a_token_in_the_url_of_a_post_is_not_let_in():
    assert client().post("/a", params={"token": TOKEN}).status_code == 401


def test_nobody_is_led_elsewhere_with_the_cookie():
    answer = client().get("http://localhost:8470//evil.example/a", params={"token": TOKEN})
    assert answer.headers["location"] == "/evil.example/a"


@pytest.mark.parametrize("base", ["http://127.0.0.1:1", "http://[::1]:1", "http://10.1.2.3"])
def test_an_address_is_a_name_that_nobody_else_can_have(base):
    assert client(base=base).get("/a", headers=GIVEN).status_code == 200


@pytest.mark.parametrize(
    "base",
    ["http://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example:8470"],
)
def test_another_name_is_not_let_in_even_with_the_token(base):
    assert client(base=base).get("/a", headers=GIVEN).status_code == 421


def test_a_name_that_was_given_is():
    allowed = client("console.example", base="http://Console.example:80")
    assert allowed.get("/a", headers=GIVEN).status_code == 200


@pytest.mark.parametrize("host", ["", "localhost:port", "localhost:8470/x@evil.example", "a b"])
def test_a_host_that_is_none_is_not_let_in(host):
    assert client().get("/a", headers={**GIVEN, "Host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:8471", "null", "http://localhost"]
)
def test_a_page_of_another_origin_is_not_let_in(origin):
    assert client().get("/a", headers={**GIVEN, "Origin": origin}).status_code == 403


def test_a_page_of_our_own_is():
    assert client().post("/a", headers={**GIVEN, "Origin": BASE}).status_code == 200


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)],
)
def test_browsers_say_from_which_site_a_request_comes(site, status):
    answer = client().get("/a", headers={**GIVEN, "Sec-Fetch-Site": site})
    assert answer.status_code == status


def test_a_cookie_alone_posts_nothing():
    browser = client()
    browser.get("/", params={"token": TOKEN})
    assert browser.post("/a").status_code == 403
    assert browser.post("/a", headers={"Origin": BASE}).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_not_answered(method):
    assert client().request(method, "/a", headers=GIVEN).status_code == 405


def test_a_body_that_says_it_is_large_is_not_read():
    answer = client().post("/a", content=b"x" * 65_537, headers=GIVEN)
    assert answer.status_code == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "x", "\xb2"])
def test_a_length_that_is_none_is_refused(length):
    headers = {**GIVEN, "Content-Length": length.encode("latin-1")}
    assert client().get("/a", headers=headers).status_code == 413


def test_a_body_of_a_length_that_nobody_says_is_cut_off():
    def pieces():
        for _ in range(70):
            yield b"x" * 1000

    with pytest.raises(ClientDisconnect):
        client().post("/a", content=pieces(), headers=GIVEN)


@pytest.mark.parametrize("path", ["/a", "/nowhere", "/health"])
def test_every_answer_forbids_what_is_foreign_and_inline(path):
    policy = client().get(path, headers=GIVEN).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_an_answer_that_refuses_has_the_headers_too():
    answer = client().get("/a")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_the_token_is_not_in_what_is_printed_of_access():
    assert TOKEN not in repr(Access(TOKEN))


def test_websockets_are_not_answered():
    with pytest.raises(WebSocketDenialResponse) as caught:
        with client().websocket_connect("/a", headers=GIVEN):
            pass
    assert caught.value.status_code == 403


def test_an_answer_that_streams_goes_through():
    async def streaming(request: Request) -> StreamingResponse:
        return StreamingResponse(iter([b"a", b"b"]))

    guard = Guard(Starlette(routes=[Route("/s", streaming)]), Access(TOKEN))
    assert TestClient(guard, base_url=BASE).get("/s", headers=GIVEN).text == "ab"
