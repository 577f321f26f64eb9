"""Properties without the lines that they stand on."""

from ottla.config.properties import located_properties


def parse_properties(text: str) -> dict[str, str]:
    """What a file with this text holds; of a key that is written twice, the last value."""
    return {key: value for key, (value, _) in located_properties(text).items()}
