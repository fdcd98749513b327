"""The program behind deploy/mutate."""

import argparse
import collections
import os
import random
import sys
import time

from bench import Bench
from doors import DOORS
from mutator import Message
from oracle import Oracle
from reactor import Reactor

# Messages of one turn, so that the doors end at about the same time.
SHARES = {"listener": 1.0, "admin": 0.5, "identity": 0.25, "upstream": 0.5}
TURN = 1_000
SAID_SECONDS = 30


def options():
    parser = argparse.ArgumentParser(prog="deploy/mutate", allow_abbrev=False)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--turns", type=int, help="in place of minutes")
    parser.add_argument("--turn", type=int, default=TURN, help="messages of clients in a turn")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--replay", metavar="FILE")
    parser.add_argument("--door", action="append", choices=list(SHARES), help="only this one")
    parser.add_argument("--program", default=".build/release/lanyard")
    parser.add_argument("--findings", default=".build/mutation", help="the folder of the files that --replay reads")
    return parser.parse_args()


def read_messages(path):
    with open(path, encoding="ascii") as file:
        found = collections.defaultdict(list)
        for line in file:
            message = Message.read(line)
            found[message.door].append(message)
    return found


class Run:
    def __init__(self, chosen):
        self.chosen, self.reactor = chosen, Reactor()
        self.seed = random.SystemRandom().randrange(1 << 32) if chosen.seed is None else chosen.seed
        replayed = read_messages(chosen.replay) if chosen.replay else None
        names = chosen.door or list(SHARES)
        self.bench = Bench(self.reactor, chosen.program, self.respond)
        self.doors = [made(self.bench, self.seed, None if replayed is None else replayed[made.name]) for made in DOORS
                      if made.name in names]
        self.identity = next((door for door in self.doors if door.name == "identity"), None)
        self.oracle = Oracle(self.bench, "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ)
        # The messages of the last two turns: what the checks find may come of the one before.
        self.turns = collections.deque(maxlen=2)

    def respond(self, kind, account, data, service):
        return self.identity.respond(kind, account, data, service) if self.identity else None

    def counts(self):
        return ", ".join(f"{door.name} {door.count}" for door in self.doors)

    async def turn(self):
        await self.reactor.each(len(self.doors), self.doors, self.run_door)
        self.turns.append([message for door in self.doors for message in door.turn])
        await self.oracle.check(self.doors)

    async def run_door(self, door):
        try:
            await door.run(max(1, round(self.chosen.turn * SHARES[door.name])))
        except Exception as error:
            self.bench.findings.append(f"{door.name}: {error!r}")

    async def all_turns(self):
        started = said = time.monotonic()
        await self.bench.start()
        while not self.bench.findings:
            await self.turn()
            now = time.monotonic()
            if now - said > SAID_SECONDS:
                said = now
                print(f"{now - started:.0f} s: {self.counts()} messages, {self.oracle.turns} turns", flush=True)
            if self.chosen.replay or (self.oracle.turns >= self.chosen.turns if self.chosen.turns
                                      else now - started >= self.chosen.minutes * 60):
                break

    def finish(self):
        """Says what was found, and writes what led to it."""
        os.makedirs(self.chosen.findings, exist_ok=True)
        path = os.path.join(self.chosen.findings, f"{self.seed}.jsonl")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(message.line() + "\n" for turn in self.turns for message in turn)
        for program in self.bench.programs:
            log = os.path.join(self.chosen.findings, f"{self.seed}-{program.name}.log")
            with open(log, "wb") as file:
                file.write(program.last_log + bytes(program.written))
        for finding in self.bench.findings[:20]:
            print(f"finding: {finding}")
        print(f"The messages that led to it: deploy/mutate --replay {path}; the logs are beside it.")

    def run(self):
        print(f"seed {self.seed}", flush=True)
        try:
            self.reactor.run(self.all_turns())
            if self.bench.findings:
                self.finish()
        finally:
            self.reactor.run(self.bench.stop())
        memory = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in self.oracle.resident.items())
        print(f"seed {self.seed}: {self.counts()} messages in {self.oracle.turns} turns, {self.oracle.requests} checks; {memory}")
        print(f"{0 if self.bench.findings else 1} passed, {1 if self.bench.findings else 0} failed")
        return 1 if self.bench.findings else 0


sys.exit(Run(options()).run())
