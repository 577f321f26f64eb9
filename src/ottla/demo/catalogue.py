"""What the shop sells and to whom: products and customers, each a function of its number.

Both are skewed as in life: a few products and customers make most of the business.
"""

from typing import Final, NamedTuple

from ottla.common.chance import Chance

COUNTRIES: Final = ("CZ", "CZ", "CZ", "CZ", "DE", "DE", "DE", "AT", "AT", "PL", "SK", "HU")
"""As often as customers come from there."""
TIERS: Final = ("basic", "silver", "gold")
_NAMES: Final = (
    "Anna",
    "Felix",
    "Franz",
    "Greta",
    "Hans",
    "Josef",
    "Karel",
    "Klara",
    "Max",
    "Ottla",
)
_SURNAMES: Final = ("Bauer", "Brod", "Dvorak", "Horak", "Kovacs", "Novak", "Samsa", "Wolf", "Zeman")
_KINDS: Final = ("lamp", "chair", "desk", "shelf", "clock", "kettle", "coat", "hat", "pen", "book")
_MAKES: Final = ("oak", "steel", "linen", "glass", "copper", "paper")
PRODUCTS: Final = len(_KINDS) * len(_MAKES)


class Product(NamedTuple):
    product_id: str
    name: str
    price: int
    """In cents."""


class Customer(NamedTuple):
    customer_id: str
    name: str
    country: str


def skewed(chance: Chance, count: int) -> int:
    """A number below ``count``; one in ten of them is drawn nearly half of the time."""
    share = chance.between(0, 1)
    return min(int(share**3 * count), count - 1)


def product(seed: int, number: int) -> Product:
    """The product of a number below :data:`PRODUCTS`."""
    make, kind = divmod(number, len(_KINDS))
    price = 100 * (3 + Chance(seed * 1_000_003 + number).below(200)) - 1
    return Product(f"p-{number:02}", f"{_MAKES[make]} {_KINDS[kind]}", price)


def customer(seed: int, number: int) -> Customer:
    """The customer of a number; who is who never changes."""
    chance = Chance(seed * 1_000_033 + number)
    name = f"{chance.choose(_NAMES)} {chance.choose(_SURNAMES)}"
    return Customer(f"c-{number}", name, chance.choose(COUNTRIES))
