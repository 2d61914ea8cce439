"""From a URI to what it names, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.protocols.restms import Links, Problem, RequestRoute, base_of, route

from .strategies import OCTETS, with_octets


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("/restms/domain/default", RequestRoute("domain", "default")),
        ("/restms/feed/news", RequestRoute("feed", "news")),
        ("/restms/feed/other/news", RequestRoute("feed", "news", "other")),
        ("/restms/resource/K3-_x", RequestRoute("resource", "K3-_x")),
        ("/restms", RequestRoute("root")), ("/restms/", RequestRoute("root")),
        ("/restms/openapi.json", RequestRoute("description")),
        ("*", RequestRoute("any")),
        ("/restms/feed/a%2Fb%20c%40%C3%B6%FF", RequestRoute("feed", "a/b c@ö\udcff")),
        ("/restms/feed/größe", RequestRoute("feed", "größe")), ("/restms/feed/a+b", RequestRoute("feed", "a+b")),
        (
            "/restms/resource/P?limit=5&embed=1&x=",
            RequestRoute("resource", "P", query={"limit": "5", "embed": "1", "x": ""}),
        ),
        ("/restms/feed/a#b?c", RequestRoute("feed", "a")),
        ("http://h:8080/restms/feed/news", RequestRoute("feed", "news")),
        ("HTTPS://user@[::1]:80/restms/feed/news?a=%20", RequestRoute("feed", "news", query={"a": " "})),
    ],
)  # fmt: skip
def test_uri_names_a_resource(uri: str, found: RequestRoute) -> None:
    assert route(uri) == found


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("/", 404), ("", 404), ("/restms/pipe/a", 404), ("/restms/feed/", 404), ("/restms/feed", 404),
        ("/restms/domain/a/b", 404), ("/restms/feed/a/b/c", 404), ("/restms/feed//a", 404), ("//restms/feed/a", 404),
        ("/RESTMS/feed/a", 404), ("restms/feed/a", 404), ("http://h", 404), ("http://h?x", 404), ("ftp://h", 404),
        ("/restms/feed/../domain/a", 404), ("/restms/resource/a/", 404),
        ("/restms/feed/%", 400), ("/restms/feed/%2", 400), ("/restms/feed/%zz", 400), ("/restms/feed/a b", 400),
        ("/restms/feed/a\n", 400), ("/restms/feed/\0", 400),
        (f"/restms/feed/{'a' * 9000}", 400), ("/restms?" + "a=b&" * 20, 400),
    ],
)  # fmt: skip
def test_uri_that_names_nothing_is_a_problem(uri: str, status: int) -> None:
    found = route(uri)
    assert isinstance(found, Problem)
    assert found.status == status


@given(text=st.text(max_size=40) | st.text("/restms/feed/resource%20?&=#*:", max_size=40))
def test_any_text_is_a_route_or_a_problem(text: str) -> None:
    assert isinstance(route(text), RequestRoute | Problem)
    assert isinstance(route(f"/restms/feed/{text}"), RequestRoute | Problem)


NAMES = with_octets(st.text(st.characters(exclude_categories=["Cs"]) | OCTETS, min_size=1, max_size=9)).filter(bool)


@given(name=NAMES, domain=NAMES)
def test_links_lead_to_what_they_were_made_of(name: str, domain: str) -> None:
    links = Links("https://h:1")
    assert route(links.domain(name)) == RequestRoute("domain", name)
    assert route(links.feed(name)) == RequestRoute("feed", name)
    assert route(links.feed(name, domain)) == RequestRoute("feed", name, domain)
    assert route(links.resource("K3")) == RequestRoute("resource", "K3")


def test_links_are_absolute_and_ascii() -> None:
    links = Links("http://h")
    assert links.feed("größe/1", "ö") == "http://h/restms/feed/%C3%B6/gr%C3%B6%C3%9Fe%2F1"
    assert links.feed("a", "default") == "http://h/restms/feed/a"
    assert links.domain("..") == "http://h/restms/domain/%2E%2E"
    assert links.resource("K3") == "http://h/restms/resource/K3"


def base(headers: dict[str, str], **others: str) -> str | Problem:
    return base_of(headers, "http", "127.0.0.1:80", **others)


@pytest.mark.parametrize("host", ["h", "h:8080", "h.example.org.", "127.0.0.1:80", "[::1]:8080", "xn--mller-kva.de"])
def test_base_is_what_the_client_calls_the_host(host: str) -> None:
    assert base({"host": host}) == f"http://{host}"
    assert base_of({"host": host}, "https", "x") == f"https://{host}"


def test_base_is_the_listener_where_the_client_says_nothing() -> None:
    assert base({}) == base({"host": ""}) == "http://127.0.0.1:80"


@pytest.mark.parametrize("host", ["a b", "a/b", "a@b", 'a"', "<a>", "a:b", "a:123456", "[::1", "a\r\nb", "a:1, b", "ö"])
def test_host_that_is_none_is_refused(host: str) -> None:
    found = base({"host": host})
    assert isinstance(found, Problem)
    assert found.status == 400


def test_configured_base_is_the_only_one() -> None:
    fields = {"host": "a", "x-forwarded-host": "b"}
    assert base(fields, configured="https://mq.example.org/") == "https://mq.example.org"


@pytest.mark.parametrize(
    "fields",
    [
        {"forwarded": 'for=1.2.3.4;proto=https;host="mq.example.org:8443"'},
        {"x-forwarded-proto": "https", "x-forwarded-host": "mq.example.org"},
    ],
)
def test_word_of_a_proxy_does_not_count(fields: dict[str, str]) -> None:
    assert base({"host": "h"} | fields) == "http://h"


@given(fields=st.dictionaries(st.sampled_from(["host", "forwarded", "x-forwarded-host"]), st.text(max_size=20)))
def test_base_is_a_uri_or_a_problem_whatever_the_fields_say(fields: dict[str, str]) -> None:
    found = base(fields)
    assert isinstance(found, Problem) or (found.isascii() and found.isprintable() and " " not in found)
