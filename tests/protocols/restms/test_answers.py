"""Fields around a document."""

from triomq.protocols.restms import JSON, XML, Version, document_headers

VERSION = Version("17", 784111777.9)


def test_document_goes_with_its_tag_and_its_date_by_both_names() -> None:
    assert document_headers(VERSION, JSON) == {
        "content-type": "application/restms+json",
        "etag": '"17-j"',
        "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT",
        "date-modified": "Sun, 06 Nov 1994 08:49:37 GMT",
        "vary": "accept, origin",
        "cache-control": "no-cache",
    }


def test_document_of_what_was_created_goes_with_its_location() -> None:
    assert document_headers(VERSION, XML, location="http://h/x")["location"] == "http://h/x"
