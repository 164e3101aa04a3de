"""What the process of the site is told by its `Origin`: behaviours, and to show its log."""

import json
import socket
from typing import Any

from throttle.local.answers import Answers
from throttle.local.arrival_log import ArrivalLog
from throttle.local.origin import behaviour_from_json

_CHUNK = 65_536


class Orders:
    """The control connection: every line is an order in JSON, and gets one line back."""

    def __init__(self, control: socket.socket, answers: Answers, log: ArrivalLog) -> None:
        self._control, self._answers, self._log = control, answers, log
        self._read = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait on before `obey`."""
        return self._control.fileno()

    def obey(self) -> bool:
        """Carry out the orders that are there; False when no more can come."""
        data = self._control.recv(_CHUNK)
        if not data:
            return False
        self._read += data
        if b"\n" not in data:
            return True
        *lines, self._read = self._read.split(b"\n")
        for line in lines:
            answer = self._carry_out(json.loads(line))
            self._control.sendall(json.dumps(answer).encode() + b"\n")
        return True

    def _carry_out(self, order: dict[str, Any]) -> list[list[Any]]:
        if order["do"] == "set":
            told = [behaviour_from_json(each) for each in order["behaviours"]]
            self._answers.set(order["host"], order["path"], told)
        elif order["do"] == "clear":
            self._answers.clear()
        elif order["do"] == "open":
            self._log.flush()
            return self._log.still_open()
        return []
