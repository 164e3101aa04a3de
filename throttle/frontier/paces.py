"""How a host's pace and a case are written down in Redis: JSON, compared as a whole."""

import json
from dataclasses import asdict

from throttle.model import Case
from throttle.pace import Pace


def encode_pace(pace: Pace) -> str:
    """The text that Redis stores; equal paces have equal texts."""
    return json.dumps(asdict(pace), separators=(",", ":"))


def decode_pace(text: bytes) -> Pace:
    """The pace in a stored text; a fresh one where there is none."""
    return Pace(**json.loads(text)) if text else Pace()


def encode_case(case: Case, **closing: str) -> str:
    """The text of a case; `closing` adds who closed it, when and why."""
    return json.dumps({**asdict(case), **closing}, ensure_ascii=True)
