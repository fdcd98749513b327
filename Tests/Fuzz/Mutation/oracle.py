"""What must be true after each turn, whatever came: the programs live, others are served, no secret is out, all is given back."""

import base64
import json
import re
import time

from bench import CONTROLS, CRASH, HOSTILE, HOSTILE_TLS, VICTIMS
from mutator import MARK
from streams import Stream

PATIENCE_SECONDS = 60
# Above what the first turns have left. A sanitizer keeps what is freed for a while.
DESCRIPTORS_MAX, GROWTH_MAX = 120, 64 << 20
# The memory limit of the manifests (deploy/kubernetes).
RESIDENT_MAX = 256 << 20
WARM_TURNS = 3
# Events of the end of a session.
ENDS = ("session.dead", "session.credential.refused")


def base64_forms(mark):
    """How the mark looks inside of base64: what does not depend on its neighbours."""
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + mark)
        yield text[0 if offset == 0 else offset + 1:(offset + len(mark)) * 8 // 6]


SECRET = re.compile(b"|".join(map(re.escape, [MARK, MARK.hex().encode(), *base64_forms(MARK)])))


class Oracle:
    def __init__(self, bench, is_sanitized):
        self.bench, self.reactor, self.is_sanitized = bench, bench.reactor, is_sanitized
        self.turns, self.requests, self.warm, self.resident = 0, 0, {}, {}
        self.kept = {}

    def find(self, text):
        self.bench.findings.append(text)

    async def check(self, doors):
        """Adds to the findings of the bench."""
        self.turns += 1
        for program in self.bench.programs:
            try:
                if self.has_ended(program):
                    continue
                await self.controls(program)
                await self.recovery(program, doors)
                await self.settled(program)
            except Exception as error:
                if not self.has_ended(program):
                    self.find(f"{program.name}: a check ended with {error!r}")
            self.logs(program, set().union(*(door.refused for door in doors if door.name == "identity")))

    def has_ended(self, program):
        status = program.process.poll()
        if status is not None:
            self.find(f"{program.name} has ended with {status}")
        return status is not None

    def expect(self, program, what, seen, wanted):
        self.requests += 1
        if seen != wanted:
            self.find(f"{program.name}: {what}: {seen!r}, not {wanted!r}")

    async def controls(self, program):
        """Requests of another user, on connections new and old, the admin API, and health."""
        target = f"/control/{self.turns}?a=b"
        right = (200, b"control " + target.encode())
        status, _, body, _ = await program.ask(program.plain, "GET", target)
        self.expect(program, target, (status, body), right)
        status, _, body, _ = await program.ask_tls(target)
        self.expect(program, target + " over TLS", (status, body), right)
        if program.name not in self.kept:
            self.kept[program.name] = Stream.connect(self.reactor, program.plain)
        status, _, body, _ = await program.ask(program.plain, "GET", target, stream=self.kept[program.name])
        self.expect(program, target + " on the kept connection", (status, body), right)
        for user in CONTROLS:
            status, value = await program.call("GET", f"/v1/users/{user}")
            self.expect(program, user, (status, value["user_id"], value["session"] in ("valid", "refreshing"), value["last_error"]),
                        (200, user, True, None))
        self.expect(program, "/livez", (await program.ask(program.health, "GET", "/livez"))[0], 200)
        for user in CONTROLS:
            self.expect(program, f"/readyz/{user}", (await program.ask(program.health, "GET", f"/readyz/{user}"))[0], 200)

    async def recovery(self, program, doors):
        """Every user works again; users that the messages added are removed."""
        await program.call("POST", "/v1/log-level", {"level": "info"})
        users = {user["name"]: user for user in (await program.call("GET", "/v1/users"))[1]["users"]}
        for name in set(users) - set(CONTROLS + VICTIMS + HOSTILE + HOSTILE_TLS):
            self.expect(program, f"DELETE of {name}", (await program.call("DELETE", f"/v1/users/{name}"))[0] in (200, 204), True)
        for name in VICTIMS + HOSTILE + HOSTILE_TLS:
            await self.log_in(program, name, name in users)
        await program.call("POST", "/v1/users/victim2/activate")

    async def log_in(self, program, name, is_known):
        service = self.bench.good if name in VICTIMS else self.bench.services[0]
        identity = "good" if name in VICTIMS else "hostile" if name in HOSTILE else "hostiletls"
        login = {"credential": {"email_password": {"email": f"{name}@example.com", "password": service.password}}, "activate": False}
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            if is_known:
                status, value = await program.call("POST", f"/v1/users/{name}/login", login)
            else:
                status, value = await program.call("POST", "/v1/users", {"name": name, "identity": identity, **login})
            if status in (200, 201):
                return self.expect(program, f"account of {name}", value["user_id"], name)
            # A location that was changed is asked anew, and another process's login ends.
            if status not in (502, 503, 409) or time.monotonic() > end:
                return self.find(f"{program.name}: login of {name} after the turn: {status} {value}")
            await self.reactor.sleep(0.1)

    async def settled(self, program):
        """Connections, buffers, descriptors and memory are given back."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            figures = await program.metrics()
            open_files, resident = figures["process_open_fds"], figures["process_resident_memory_bytes"]
            is_settled = (figures["lanyard_client_connections"] <= 1 and figures["lanyard_buffer_bytes"] <= 1 << 20
                          and open_files <= DESCRIPTORS_MAX)
            if is_settled or time.monotonic() > end:
                break
            await self.reactor.sleep(0.2)
        if not is_settled:
            self.find(f"{program.name} does not settle: {figures}")
        if figures.get("lanyard_internal_errors_total"):
            self.find(f"{program.name}: {figures['lanyard_internal_errors_total']} internal errors")
        self.resident[program.name] = resident
        if self.turns <= WARM_TURNS:
            self.warm[program.name] = max(resident, self.warm.get(program.name, 0))
        elif not self.is_sanitized and resident > min(RESIDENT_MAX, self.warm[program.name] + GROWTH_MAX):
            self.find(f"{program.name}: {resident / 1e6:.0f} MB resident, {self.warm[program.name] / 1e6:.0f} MB after {WARM_TURNS} turns")

    def logs(self, program, refused):
        """Each line is one object, and none has a secret. No session has ended that no response of the service has ended.

        `refused`: the accounts that a response with a status of 4xx was about.
        """
        data = program.take_log()
        if match := CRASH.search(data):
            self.find(f"{program.name} says: {data[max(0, match.start() - 200):match.start() + 2000].decode(errors='replace')}")
        if match := SECRET.search(data):
            line = data[data.rfind(b"\n", 0, match.start()) + 1:data.find(b"\n", match.start())]
            self.find(f"{program.name} has a secret in its log: {line[:2000]!r}")
        for line in data.split(b"\n")[:-1]:
            try:
                event = json.loads(line)
                name, user = event.get("event"), event.get("user")
            except (ValueError, AttributeError):
                self.find(f"{program.name} has a line that is no object: {line[:500]!r}")
                break
            is_other = user in CONTROLS and name in (*ENDS, "session.refresh.failed", "session.login.failed")
            if is_other or name in ENDS and user in HOSTILE + HOSTILE_TLS and not refused & {user, "nameless"}:
                self.find(f"{program.name}: a session has ended for no reason: {line[:1000].decode(errors='replace')}")
