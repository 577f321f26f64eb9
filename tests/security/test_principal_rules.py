"""``ssl.principal.mapping.rules`` makes the names that Apache Kafka makes."""

import pytest

from ottla.common.errors import InvalidConfig
from ottla.security.principal_rules import parse_rules

NAME = "CN=Duke,OU=JavaSoft,O=Sun Microsystems"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", NAME, NAME),
        ("RULE:^CN=(.*?),.*$/$1/", NAME, "Duke"),
        ("RULE:^CN=(.*?),.*$/$1/L", NAME, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", NAME, "DUKE@JAVASOFT"),
        ("RULE:^UID=(.*?)$/$1/, RULE:^CN=(.*?),.*$/$1/ , DEFAULT", NAME, "Duke"),
        ("RULE:^UID=(.*?)$/$1/,DEFAULT", NAME, NAME),
        ("RULE:^UID=(.*?)$/$1/", NAME, None),
        ("RULE:CN=Duke/x/", NAME, None),
        ("RULE:^CN=(.*?),.*$/$2-$1/", NAME, "$2-Duke"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_holds(
    rules: str, name: str, principal: str | None
) -> None:
    assert parse_rules(rules)(name) == principal


@pytest.mark.parametrize("rules", ["RULE:abc", "RULE:a/b", "RULE:(/b/", "default", "DEFAULT;"])
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(InvalidConfig, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(rules)
