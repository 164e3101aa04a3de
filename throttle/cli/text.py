"""Text from strangers, made safe for a terminal and a log: one line, no control codes, no novel."""

LONGEST = 300
"""Characters of one value shown to a person."""

_DOTS = "…"


def safe(text: str, longest: int = LONGEST) -> str:
    """`text` with everything that a terminal or a log could obey written as an escape.

    Control codes, ANSI escapes, line and paragraph separators, marks that turn the writing
    direction and half surrogates become `\\x1b`, `\\u2028` and so on; the rest is kept. More than
    `longest` characters are cut, with an ellipsis at the end.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escape(c) for c in text[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + _DOTS


def counted(number: int, one: str, many: str = "") -> str:
    """`1 URL`, `1,200 URLs`; `many` is the plural where it takes more than an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
