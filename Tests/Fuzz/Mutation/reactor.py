"""Coroutines over one epoll: thousands of short connections a second need less than asyncio gives."""

import collections
import select
import time

# Granted to one wait of a coroutine, which then gets `Stuck`.
PATIENCE_SECONDS = 60
READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Stuck(Exception):
    """A peer has neither sent, taken nor closed for the whole patience."""


class Suspension:
    """What a coroutine waits for: a descriptor (`read` or `write`), an event or a time."""
    __slots__ = ("kind", "value")

    def __init__(self, kind, value):
        self.kind, self.value = kind, value

    def __await__(self):
        return (yield self)


class Reactor:
    def __init__(self):
        self.epoll = select.epoll()
        self.ready = collections.deque()
        # (task, since) by descriptor, and (time, task) of those that sleep.
        self.waiting, self.sleeping = {}, []

    def spawn(self, coroutine, done, patience=PATIENCE_SECONDS):
        """Starts a coroutine; `done` gets its result, or the exception that ended it. Without patience it may wait for ever."""
        self.ready.append((coroutine, done, patience))

    async def readable(self, sock):
        await Suspension(READ, sock.fileno())

    async def writable(self, sock):
        await Suspension(WRITE, sock.fileno())

    async def sleep(self, seconds):
        await Suspension("sleep", time.monotonic() + seconds)

    async def each(self, width, items, work):
        """Runs `await work(item)` for each item, at most `width` at once. The first exception is raised when all have ended."""
        items, state = iter(items), {"running": 0, "error": None, "waiter": None}

        def done(result):
            state["running"] -= 1
            if isinstance(result, BaseException):
                state["error"] = state["error"] or result
            if state["waiter"]:
                waiter, state["waiter"] = state["waiter"], None
                self.ready.append(waiter)

        for item in items:
            while state["running"] >= width:
                await Suspension("hold", state)
            state["running"] += 1
            self.spawn(work(item), done)
        while state["running"]:
            await Suspension("hold", state)
        if state["error"]:
            raise state["error"]

    def run(self, coroutine):
        """Runs until this coroutine has ended; others continue with the next run. Returns its result."""
        results = []
        self.spawn(coroutine, results.append)
        looked = time.monotonic()
        while not results:
            for _ in range(len(self.ready)):
                self.step(self.ready.popleft())
            now = time.monotonic()
            self.wake(now)
            for descriptor, _ in self.epoll.poll(0 if self.ready else self.pause(now)):
                task = self.waiting.pop(descriptor, None)
                if task:
                    self.ready.append(task[0])
            if now - looked > 1:
                looked = now
                self.give_up(now)
        if isinstance(results[0], BaseException):
            raise results[0]
        return results[0]

    def pause(self, now):
        return max(0, min([1] + [at - now for at, _ in self.sleeping]))

    def wake(self, now):
        for item in [item for item in self.sleeping if item[0] <= now]:
            self.sleeping.remove(item)
            self.ready.append(item[1])

    def give_up(self, now):
        for descriptor, (task, since) in list(self.waiting.items()):
            if task[2] is not None and now - since > task[2]:
                del self.waiting[descriptor]
                self.step(task, Stuck(f"no event for {task[2]} s"))

    def step(self, task, error=None):
        coroutine, done, _ = task
        try:
            suspension = coroutine.throw(error) if error else coroutine.send(None)
        except StopIteration as end:
            done(end.value)
            return
        except Exception as failure:
            done(failure)
            return
        if suspension.kind == "sleep":
            self.sleeping.append((suspension.value, task))
        elif suspension.kind == "hold":
            suspension.value["waiter"] = task
        else:
            self.watch(suspension.value, suspension.kind, task)

    def watch(self, descriptor, mask, task):
        self.waiting[descriptor] = (task, time.monotonic())
        try:
            self.epoll.register(descriptor, mask | select.EPOLLONESHOT)
        except FileExistsError:
            self.epoll.modify(descriptor, mask | select.EPOLLONESHOT)
