"""``sasl.jaas.config`` as Java's tokenizer reads it; errors that show nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import InvalidConfig
from ottla.security.jaas import PLAIN_MODULE, JaasEntry, parse_jaas

NAME = "listener.name.sasl.plain.sasl.jaas.config"


def options(text: str) -> dict[str, str]:
    return dict(parse_jaas(f"a.B required {text};", NAME).options)


def test_one_module_its_flag_and_its_options() -> None:
    entry = parse_jaas(
        f'{PLAIN_MODULE} required username="admin" password=\'a b\'\n user_alice = "x";', NAME
    )
    assert entry.module == PLAIN_MODULE
    assert entry.options == {"username": "admin", "password": "a b", "user_alice": "x"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("debug=true", {"debug": "true"}),
        ('a="1" /* b="2" */ c="3" // d="4"', {"a": "1", "c": "3"}),
        (r'a="\"q\" \\ \n \t \101"', {"a": '"q" \\ \n \t A'}),
        ("'quoted key'='v'", {"quoted key": "v"}),
        ('user_a-b.c="x"', {"user_a-b.c": "x"}),
        ('a="first" a="last"', {"a": "last"}),
        ('a=""', {"a": ""}),
        ("a='ünï'", {"a": "ünï"}),
    ],
)
def test_options_as_java_reads_them(text: str, found: dict[str, str]) -> None:
    assert options(text + "\n") == found


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_any_flag_will_do(flag: str) -> None:
    assert parse_jaas(f"a.B {flag};", NAME).module == "a.B"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  // nothing",
        ";",
        "a.B",
        "a.B;",
        "a.B sometimes;",
        'a.B required password="secret"',
        'a.B required password="secret',
        'a.B required password="secret\n";',
        "a.B required password=secret@home;",
        "a.B required password=12345;",
        "a.B required password secret;",
        'a.B required password="secret"; more',
        'a.B required password="secret"; c.D required;',
        "=a.B required;",
    ],
)
def test_what_cannot_be_read_is_refused_by_the_name_of_the_setting_alone(text: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_jaas(text, NAME)
    assert NAME in refused.value.message
    assert "secret" not in refused.value.message
    assert "12345" not in refused.value.message


def test_an_entry_does_not_show_its_options() -> None:
    entry = JaasEntry("a.B", {"password": "secret"})
    assert "secret" not in repr(entry) + str(entry) + f"{entry}"


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_whatever_is_quoted_comes_back(wanted: dict[str, str]) -> None:
    text = " ".join(f"{_quoted(key)}={_quoted(value)}" for key, value in wanted.items())
    assert options(text) == wanted


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


@given(st.text())
def test_no_text_is_a_surprise(text: str) -> None:
    with pytest.raises(InvalidConfig, match=NAME):
        parse_jaas(text + "=", NAME)
