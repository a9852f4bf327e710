"""What a person wants, whatever is in their hands: the rules that hold for every device."""

from ..messages import Drive, OperatorCommand, Verdict

_RESUME_S = 0.3  # a moment's press is told for so long, so that a slow runtime sees it


class Person:
    """Wishes of one person in the attempt that runs.

    Each attempt begins released: a switch that is held down from before counts only after it was let go. Letting go of any switch that
    must be held releases at once. A stop stays. Rewinding is something that a person does while they drive.
    """

    def __init__(self) -> None:
        """Nobody has done anything yet."""
        self.engaged = False
        self.stopped = False  # for good: a stop is not taken back by waiting
        self.now_ns = 0
        self._episode = -1
        self._sequence = self._pressed_ns = 0
        self._begin(-1)

    @property
    def attempting(self) -> bool:
        """Whether there is an attempt to take over in."""
        return self._episode >= 0 and not self.stopped

    @property
    def rewinding(self) -> bool:
        """Whether the robot is to go back along its path."""
        return self.engaged and any(self._rewinds.values())

    def look(self, episode: int, now_ns: int) -> None:
        """It is `now_ns`, and attempt `episode` runs; -1 for none."""
        self.now_ns = now_ns
        if episode != self._episode:
            self._begin(episode)

    def act(self) -> None:
        """The person did something."""
        self._pressed_ns = self.now_ns

    def hold(self, switch: str, held: bool) -> None:
        """Tell a switch that drives as long as it is held; call it with the present state in every poll, changed or not."""
        before = self._holds.get(switch)
        self._holds[switch] = held
        if held and before is False:
            self._wanted = self.attempting
        elif before and not held:
            self.release()

    def toggle(self) -> None:
        """Take over, or give back."""
        if self._wanted:
            self.release()
        else:
            self._wanted = self.attempting

    def want(self) -> None:
        """Take over, or go on driving."""
        self._wanted = self.attempting

    def release(self) -> None:
        """Give back."""
        self.engaged = self._wanted = False

    def admit(self, ready: bool) -> None:
        """Begin to drive where the person wants to, once what moves the robot is `ready`."""
        self.engaged = self._wanted and (self.engaged or ready)
        self._took_over |= self.engaged

    def rewind(self, switch: str, held: bool) -> None:
        """Tell a switch that goes back along the path as long as it is held."""
        self._rewinds[switch] = held

    def resume(self) -> None:
        """The policy that waits for help may go on."""
        if self.attempting:
            self._resume_until_ns = self.now_ns + round(_RESUME_S * 1e9)

    def judge(self, verdict: Verdict) -> None:
        """Say how the attempt ended; only somebody who has taken over may."""
        if self.attempting and self._took_over:
            self._verdict = verdict

    def stop(self) -> None:
        """Stop, for good."""
        self.stopped = True
        self.release()

    def command(self, drive: Drive, values: tuple[float, ...]) -> OperatorCommand:
        """All of it, with the numbers that move the robot."""
        self._sequence += 1
        return OperatorCommand(
            sequence=self._sequence,
            heartbeat_ns=self.now_ns,
            pressed_ns=self._pressed_ns,
            engaged=self.engaged,
            drive=drive,
            values=values,
            rewind=self.rewinding,
            resume=self.attempting and self.now_ns < self._resume_until_ns,
            stop=self.stopped,
            verdict=self._verdict,
        )

    def _begin(self, episode: int) -> None:
        self._episode = episode
        self.engaged = self._wanted = self._took_over = False
        self._verdict = Verdict.NONE
        self._resume_until_ns = 0
        self._holds: dict[str, bool] = {}
        self._rewinds: dict[str, bool] = {}
