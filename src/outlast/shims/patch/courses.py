"""Where a program's connect leads: the target behind its destination, and whom to dial first.

A course for an address that stands for itself is kept, so that the next connect finds it in one
look; one for a name or a mapped destination is made anew, because its endpoints come and go.

An address that a program connects to may be dialled again from another port but is not exchanged
for another address of its name: some programs mean every single pod. Where its name has others that
are not known dead it gives way to them early instead, because whoever was told several addresses
tries the next one. Refuses addresses that need a zone (fe80::1%eth0): those never leave the link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from socket import AddressFamily, gaierror
from typing import Any

from outlast.net.address import Address, literal
from outlast.net.kernel import kernel
from outlast.service.table import Service, service_of
from outlast.shims.patch.answers import Answer, Answers, addresses_in, out_of_use
from outlast.shims.settings import Settings
from outlast.target import Target, target_of

__all__ = ["GIVES_WAY", "Course", "Courses"]

GIVES_WAY = 0.75  # seconds; three of the longest attempt delays, in which four dials were made
MOST = 1024  # courses that are kept, each with what is known of its target

Resolve = Callable[..., Sequence[Any]]


class Course:
    """One destination. `first`: what to dial first on the program's own socket; None: a race finds
    out. `others`: what else will do. `answer`: the name it came from, if that has several
    addresses. `delay`: seconds until another dial joins, as far as is known. `connects`: how many
    were measured, or might have been; `polled`: how many were begun by who polls."""

    __slots__ = ("answer", "connects", "delay", "first", "others", "polled", "service", "target")

    def __init__(
        self,
        target: Target,
        first: Address | None,
        others: Sequence[Address] = (),
        answer: Answer | None = None,
    ) -> None:
        self.target = target
        self.first = first
        self.others = others
        self.answer = answer
        self.connects = 0
        self.polled = 0
        self.service: Service = service_of(target, kernel())
        self.delay = 0.0
        self.refresh()

    def refresh(self) -> None:
        """How long a connect takes has been learnt, by whomever."""
        self.delay = self.service.memory.figures()[0]

    @property
    def limit(self) -> float | None:
        """Seconds after which it gives way to the name's other addresses; None: it does not."""
        if self.answer is None:
            return None
        others = set(self.answer.addresses) - {self.first} - out_of_use(self.answer.service)
        return GIVES_WAY if others else None


class Courses:
    """All that `install()` looks after, by its settings. Thread-safe.

    `resolve`: the program's own `socket.getaddrinfo`.
    """

    def __init__(self, settings: Settings, answers: Answers, resolve: Resolve) -> None:
        self.settings = settings
        self.answers = answers
        self.kept: dict[object, Course | None] = {}
        self._resolve = resolve
        self.over = False
        self._here: set[tuple[str, int]] = set()  # names that lead to nothing in scope
        self._single: dict[tuple[str, int, int], Course] = {}  # names of one address

    def end(self) -> None:
        """The patch is taken back: whoever has kept a replacement finds nothing in scope."""
        self.over = True
        self.forget()
        self._single.clear()

    def forget(self) -> None:
        """What names stand for has changed."""
        self.kept.clear()
        self._here.clear()

    def find(self, address: Any, family: int) -> Course | None:
        """The course of what a program gives to `connect`; None: leave it alone.

        Raises what `getaddrinfo` raises for a name.
        """
        host, port = self._pair(address)
        if self.over or host is None or (len(address) == 4 and family != AddressFamily.AF_INET6):
            return None
        where = literal(host, port)
        if where is None:
            return self._named(host, port, family)
        course, keep = self._literal(where, address, family)
        if keep:
            if len(self.kept) >= MOST:
                self.kept.clear()
            self.kept[address] = course
        return course

    def reach(self, host: str, port: int) -> Course | None:
        """The course of a name or an address whose family is open; None: leave it alone."""
        where = literal(host, port)
        if self.over:
            return None
        if where is None:  # what is in scope by its addresses alone is met when these are dialled
            return self._named(host, port, 0) if self._wanted(host, port) else None
        key = where.sockaddr
        if key in self.kept:
            return self.kept[key]
        return self.find(key, where.family)

    def _wanted(self, name: str, port: int) -> bool:
        if (name, port) in self._here:
            return False
        return self.settings.scope.target_for(name, port) is not None

    @staticmethod
    def _pair(address: Any) -> tuple[str, int] | tuple[None, int]:
        """Host and port, if it has the form in which this library helps."""
        if type(address) is not tuple or len(address) not in (2, 4) or any(address[2:]):
            return None, 0
        host, port = address[:2]
        if type(host) is bytes and host.isascii():
            host = host.decode("ascii")
        if type(host) is not str or type(port) is not int or not 0 < port < 65536 or not host:
            return None, 0
        return host, port

    def _literal(self, where: Address, address: Any, family: int) -> tuple[Course | None, bool]:
        """The course to an address, and whether it stays the same."""
        if where.family != family:
            return None, False
        host, port = where.pair
        answer = self.answers.name_of(host, port)
        target = self._scoped(host, None if answer is None else answer.host, port)
        if target is None:
            return None, True
        if target.text != target_of(host, port).text:
            return self._mapped(target, family), False
        several = answer is not None and len(answer.addresses) > 1
        return Course(target, where, answer=answer if several else None), type(address) is tuple

    def _named(self, host: str, port: int, family: int) -> Course | None:
        """The course to a name. One of a single address is kept as long as that is so."""
        known = self._single.get((host, port, family))
        if known is not None:
            found = self._look_up(known.target, family)
            if len(found) == 1 and found[0] == known.first:
                return known
            del self._single[host, port, family]
        mapped = self.settings.scope.target_for(host, port)
        if mapped is not None and mapped.text != target_of(host, port).text:
            return self._mapped(mapped, family)
        target = target_of(host, port)
        found = self._look_up(target, family)
        if not found:
            return None
        if self._scoped(found[0].host, host, port) is None:
            self._stays(host, port)
            return None
        order = list(service_of(target, kernel()).arrange(found, kernel().now()))
        course = Course(target, order[0], order[1:])
        if len(order) == 1 and len(self._single) < MOST:
            self._single[host, port, family] = course
        return course

    def _stays(self, name: str, port: int) -> None:
        """A name that leads to addresses out of scope, as one of this machine does."""
        if len(self._here) >= MOST:
            self._here.clear()
        self._here.add((name, port))

    def _look_up(self, target: Target, family: int) -> Sequence[Address]:
        """The addresses of a target's name; the last ones while its resolver is out of order."""
        assert target.name is not None
        service, now = service_of(target, kernel()), kernel().now()
        try:
            found = addresses_in(self._resolve(*target.name, family, 1))
        except gaierror:
            last = service.memory.last_answer(now)
            if not last:
                raise
            return [each for each in last if family in (0, each.family)]
        if family == 0:
            service.resolved(found, now)
            service.memory.found(found, now)
        return found

    def _mapped(self, target: Target, family: int) -> Course:
        """Endpoints of another target; the first of this family, if one is known."""
        if target.name is not None:
            self._look_up(target, 0)
        course = Course(target, None)
        service, at = course.service, kernel().now()
        picked = service.order(at)
        service.untried(picked, at)  # a trial is the race's to begin, should it come to one
        order = list(picked)
        first = next((each for each in order if family in (0, each.family)), None)
        if first is not None:
            course.first = first
            course.others = [each for each in order if each != first]
        return course

    def _scoped(self, host: str, name: str | None, port: int) -> Target | None:
        """The target of an address, and of the name that it came from; None: out of scope."""
        scope = self.settings.scope
        here = scope.target_for(host, port)
        if name is None:
            return here
        named = scope.target_for(name, port)
        if named is not None and named.text != target_of(name, port).text:
            return named
        if any(pattern.meets(name, None, port) for pattern in scope.skip):
            return None
        if scope.only and named is not None and here is None:
            skipped = any(pattern.meets(host, _ip(host), port) for pattern in scope.skip)
            return None if skipped else target_of(host, port)
        return here


def _ip(host: str) -> Any:
    import ipaddress

    return ipaddress.ip_address(host)
