"""How a URL is written down in the frontier: `tries depth hops url`, robots.txt with its origin."""

from throttle.model import Entry


def encode(entry: Entry) -> str:
    """The line that Redis stores; canonical URLs hold no spaces."""
    line = f"{entry.tries} {entry.depth} {entry.hops} {entry.url}"
    return f"{line} {entry.origin}" if entry.origin else line


def decode(line: bytes) -> Entry:
    """The entry in a stored line."""
    tries, depth, hops, url, *origin = line.decode().split(" ")
    return Entry(url, int(depth), int(hops), int(tries), origin[0] if origin else "")


def one_line(text: str) -> str:
    """`text` as one line that can be stored: whatever user code put into an error."""
    return " ".join(text.encode("utf-8", "backslashreplace").decode().split())
