"""Draw RestMS's reference from what is obeyed: elements, methods by resource, problems."""

from collections.abc import Sequence

from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.protocols.restms import METHODS, PROBLEMS, SUCCESS
from triomq.protocols.restms.documents import KINDS, NAMES


def elements() -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """List what an element can have."""
    rows = []
    for kind, children in KINDS.items():
        names = [name for name in kind.__struct_encode_fields__ if name not in children]
        rows.append((f"``{NAMES[kind]}``", ", ".join(names), ", ".join(children)))
    return ("element", "attributes", "children"), rows


def methods() -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """List what methods do to a resource; GET, HEAD and OPTIONS do alike to all."""
    rows = []
    for kind, row in METHODS.items():
        if kind != "missing":
            rows.append((kind, *(row.get(method, "403") for method in ("GET", "POST", "PUT", "DELETE"))))
    return ("resource", "GET", "POST", "PUT", "DELETE"), rows


def actions() -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """List how actions end well."""
    return ("action", "ends well with"), [(name, ", ".join(map(str, found))) for name, found in SUCCESS.items()]


def problems() -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """List the codes of each status."""
    codes: dict[int, list[str]] = {}
    for code, status in PROBLEMS.items():
        codes.setdefault(status, []).append(f"``{code}``")
    rows: list[tuple[str, ...]] = [(str(status), ", ".join(codes[status])) for status in sorted(codes)]
    return ("status", "codes"), rows


TABLES = {"elements": elements, "methods": methods, "actions": actions, "problems": problems}


class RestMSTable(SphinxDirective):
    """``.. restms-table:: methods`` is one of the tables."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        columns, rows = TABLES[self.arguments[0]]()
        return self.parse_text_to_nodes("\n".join(list_table(columns, rows)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("restms-table", RestMSTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
