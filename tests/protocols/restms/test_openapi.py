"""The OpenAPI file says what the tables say."""

import json
import re
from typing import Any

import msgspec
import pytest

from triomq.protocols.restms import METHODS, OURS, PROBLEMS, SUCCESS, RequestRoute, ResourceKind, openapi, route
from triomq.protocols.restms.documents import KINDS, NAMES, Document, JSONRoot

FILE: dict[str, Any] = json.loads(openapi())

KINDS_AT: dict[str, tuple[ResourceKind, ...]] = {
    "/restms": ("root",),
    "/restms/openapi.json": ("description",),
    "/restms/domain/{domain}": ("domain",),
    "/restms/feed/{feed}": ("feed", "configured feed", "missing"),
    "/restms/feed/{domain}/{feed}": ("feed", "configured feed", "missing"),
    "/restms/resource/{hash}": (
        "feed", "pipe", "join", "default join", "message", "asynclet", "content", "missing",
    ),
}  # fmt: skip
METHODS_IN_FILE = ("get", "post", "put", "delete")

OPERATIONS = [
    (path, method, item[method]) for path, item in FILE["paths"].items() for method in METHODS_IN_FILE if method in item
]
each_operation = pytest.mark.parametrize(
    ("path", "method", "operation"), OPERATIONS, ids=[f"{method} {path}" for path, method, _ in OPERATIONS]
)


def references(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        found = [tree["$ref"]] if "$ref" in tree else []
        return found + [each for value in tree.values() for each in references(value)]
    return [each for value in tree for each in references(value)] if isinstance(tree, list) else []


def test_paths_are_those_of_the_routes() -> None:
    assert set(FILE["paths"]) == set(KINDS_AT)
    for path in KINDS_AT:
        assert isinstance(route(re.sub(r"[{}]", "", path)), RequestRoute)
    assert {kind for kinds in KINDS_AT.values() for kind in kinds} == set(METHODS)


@pytest.mark.parametrize("path", KINDS_AT)
def test_methods_of_a_path_are_those_of_the_table(path: str) -> None:
    methods = {method.lower() for kind in KINDS_AT[path] for method in METHODS[kind]} - {"head", "options"}
    assert {method for method in METHODS_IN_FILE if method in FILE["paths"][path]} == methods


@each_operation
def test_statuses_of_an_operation_are_those_of_the_table(path: str, method: str, operation: dict[str, Any]) -> None:
    actions = {METHODS[kind][method.upper()] for kind in KINDS_AT[path] if method.upper() in METHODS[kind]}
    well = {str(status) for action in actions for status in SUCCESS[action]}
    if path == "/restms/resource/{hash}" and method == "get":
        well.add("204")  # Prefer: wait
    listed = set(operation["responses"])
    assert {status for status in listed if status < "400"} == well
    assert {int(status) for status in listed if status >= "400"} <= set(PROBLEMS.values())


@each_operation
def test_documents_are_in_the_three_forms(path: str, method: str, operation: dict[str, Any]) -> None:
    for content in [operation.get("requestBody", {}), *operation["responses"].values()]:
        forms = set(content.get("content", {})) - {"*/*", "text/event-stream", "application/json"}
        assert forms in (set(), {media.name for media in OURS})


def test_problems_are_those_of_the_table() -> None:
    for status, response in FILE["components"]["responses"].items():
        codes = {code for code, number in PROBLEMS.items() if number == int(status)}
        assert set(response["headers"]["RestMS-Error"]["schema"]["enum"]) == codes
        assert list(response["content"]) == ["text/plain"]
    assert {int(status) for status in FILE["components"]["responses"]} == set(PROBLEMS.values())


def test_schemas_are_those_of_the_documents() -> None:
    schemas = FILE["components"]["schemas"]
    titles = {kind: name.capitalize() for kind, name in NAMES.items()} | {Document: "Document", JSONRoot: "Root"}
    kinds = {title: kind for kind, title in titles.items()}
    assert set(schemas) == set(kinds)
    for name, schema in schemas.items():
        assert tuple(schema["properties"]) == kinds[name].__struct_encode_fields__
        children = KINDS.get(kinds[name], {})
        for child, kind in children.items():
            assert schema["properties"][child]["items"] == {"$ref": f"#/components/schemas/{titles[kind]}"}


def test_references_lead_somewhere() -> None:
    for reference in references(FILE):
        _, *steps = reference.split("/")
        place = FILE
        for step in steps:
            place = place[step]


def test_names_of_operations_are_unique() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(names)) == len(names)


def test_file_is_read_once_and_as_it_is() -> None:
    assert openapi() is openapi()
    assert msgspec.json.decode(openapi()) == FILE
