"""Decides when to warn of a wait for an answer, and words the warning. Pure."""

from dataclasses import dataclass
from urllib.parse import urlsplit

TELL_AFTER_S = 2.0
TELL_AGAIN_S = 5.0


@dataclass(slots=True)
class WaitWarnings:
    """The start of an operation's wait, and the time of its next warning; seconds of one clock.

    All requests of an operation share it, so a store of many silent pods is reported as soon as a
    single pod.
    """

    began_s: float
    due_s: float
    is_told: bool = False  # Whether there was a warning.

    @classmethod
    def begun(cls, now_s: float, after_s: float = TELL_AFTER_S) -> "WaitWarnings":
        """The wait of an operation that begins now."""
        return cls(now_s, now_s + after_s)

    def take_if_due(self, now_s: float) -> bool:
        """Whether a warning is due; if so, the next one is due some seconds later."""
        if now_s < self.due_s:
            return False
        self.due_s, self.is_told = now_s + TELL_AGAIN_S, True
        return True


@dataclass(frozen=True, slots=True)
class WarnedWait:
    """A request without an answer yet; `asked` is the URL, or the name of a program."""

    telling: WaitWarnings
    asked: str
    until_s: float

    def words(self, now_s: float) -> str:
        parts = urlsplit(self.asked)
        asked = f"{parts.scheme}://{parts.netloc}" if parts.netloc else self.asked
        waited_s = now_s - self.telling.began_s
        said = f"no answer for {waited_s:.0f} s: waiting for {asked}"
        left_s = round(self.until_s - now_s)
        return f"{said} for up to {left_s} s more" if left_s > 0 else said
