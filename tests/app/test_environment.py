"""Environment variables over a file."""

import pytest

from triomq.app import Config
from triomq.app.environment import overlay
from triomq.errors import ConfigError


def over(data: dict[str, object], **variables: str) -> tuple[dict[str, object], dict[str, str]]:
    sources = overlay(data, Config, {f"TRIOMQ_{name}": value for name, value in variables.items()})
    return data, sources


def test_path_is_written_in_capitals_with_underscores() -> None:
    data, sources = over({"log": {"level": "info"}}, LOG_LEVEL="debug", DRAIN="0.5")
    assert data == {"log": {"level": "debug"}, "drain": 0.5}
    assert sources == {"log.level": "TRIOMQ_LOG_LEVEL", "drain": "TRIOMQ_DRAIN"}


def test_tables_above_a_setting_are_made() -> None:
    assert over({}, LOG_LEVEL="debug")[0] == {"log": {"level": "debug"}}


def test_number_leads_into_a_list_or_adds_to_it() -> None:
    data, sources = over(
        {"endpoints": [{"type": "amqp"}]},
        ENDPOINTS_0_MAX_MESSAGE_SIZE="9",
        ENDPOINTS_1_TYPE="amqp",
        ENDPOINTS_1_PORT="7",
    )
    assert data == {"endpoints": [{"type": "amqp", "max_message_size": 9}, {"type": "amqp", "port": 7}]}
    assert sources["endpoints[0].max_message_size"] == "TRIOMQ_ENDPOINTS_0_MAX_MESSAGE_SIZE"


@pytest.mark.parametrize("number", ["2", "x", ""])
def test_number_that_leads_nowhere_says_how_many_there_are(number: str) -> None:
    with pytest.raises(ConfigError, match="endpoints has 1 entries; a number from 0 to 1 is to follow"):
        over({"endpoints": [{}]}, **{f"ENDPOINTS_{number}_PORT": "1"})


@pytest.mark.parametrize(
    ("name", "user"), [("ADA", "ada"), ("ADA_LOVELACE", "ada_lovelace"), ("MR_X", "Mr X"), ("PASSWORD", "password")]
)
def test_user_is_found_whatever_the_name_is_made_of(name: str, user: str) -> None:
    data = {"users": {"Mr X": {}}}
    over(data, **{f"USERS_{name}_PASSWORD": "s", f"USERS_{name}_PASSWORD_FILE": "f"})
    assert data["users"][user] == {"password": "s", "password_file": "f"}


def test_text_is_taken_as_it_stands() -> None:
    data, _ = over({}, USERS_ADA_PASSWORD="123", LOG_LEVEL='"x"')
    assert data == {"users": {"ada": {"password": "123"}}, "log": {"level": '"x"'}}


def test_values_that_are_no_text_are_read_as_toml() -> None:
    data, _ = over({}, DOMAINS='["a", "b"]', USERS='{ada = {password = "s"}}', DRAIN="soon")
    assert data == {"domains": ["a", "b"], "users": {"ada": {"password": "s"}}, "drain": "soon"}


def test_value_cannot_say_more_than_one_thing() -> None:
    assert over({}, DRAIN="1\nlog = 2")[0] == {"drain": "1\nlog = 2"}


def test_table_with_free_keys_can_be_given_whole_or_key_by_key() -> None:
    data, _ = over({"endpoints": [{}]}, ENDPOINTS_0_VIRTUAL_HOSTS='{"/" = "a"}')
    over(data, ENDPOINTS_0_VIRTUAL_HOSTS_SHOP="b", ENDPOINTS_0_VIRTUAL_HOSTS__="c")
    assert data == {"endpoints": [{"virtual_hosts": {"/": "c", "shop": "b"}}]}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("LOG_LEVL", "did you mean 'TRIOMQ_LOG_LEVEL'?"),
        ("DOMAIN", "did you mean 'TRIOMQ_DOMAINS'?"),
        ("WHATEVER", "known are 'TRIOMQ_ENDPOINTS'"),
        ("ENDPOINTS_0_PROT", "did you mean 'TRIOMQ_ENDPOINTS_0_PORT'?"),
        ("USERS_ADA", "known are 'TRIOMQ_USERS_ADA_PASSWORD', 'TRIOMQ_USERS_ADA_PASSWORD_FILE'"),
        ("DRAIN_SECONDS", "drain has nothing inside"),
    ],
)
def test_variable_that_leads_nowhere_is_an_error(name: str, advice: str) -> None:
    with pytest.raises(ConfigError) as error:
        over({"endpoints": [{}]}, **{name: "x"})
    assert advice in str(error.value)
    assert f"TRIOMQ_{name}" in str(error.value)


def test_file_that_is_wrong_there_already_is_no_place_to_write_into() -> None:
    with pytest.raises(ConfigError, match="log has nothing inside that could be called 'LEVEL'"):
        over({"log": "debug"}, LOG_LEVEL="debug")


def test_variables_of_others_are_ignored() -> None:
    data: dict[str, object] = {}
    assert overlay(data, Config, {"PATH": "/bin", "TRIOMQ_URL": "x"}, leave=["TRIOMQ_URL"]) == {}
    assert data == {}
