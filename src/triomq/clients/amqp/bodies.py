"""What is published by a client: bodies are octets, properties are ``BasicProperties``."""

from triomq.protocols import BasicProperties


def check_body(body: object) -> None:
    """Refuse a body that is no octets; one that is empty in its own way, such as ``{}``, would go unnoticed.

    Raises:
        TypeError: The text has the way out.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        return
    way = "body.encode()" if isinstance(body, str) else 'b"" for an empty one, or for instance json.dumps(…).encode()'
    raise TypeError(f"the body is of type {type(body).__name__}; a body is bytes: write {way}")


def check_properties(properties: object) -> None:
    """Refuse what are no properties.

    Raises:
        TypeError: The text has the way out.
    """
    if not isinstance(properties, BasicProperties):
        raise TypeError(
            f"the properties are of type {type(properties).__name__}; write BasicProperties(content_type=…), and "
            "BasicProperties(headers={…}) for headers of your own"
        )
