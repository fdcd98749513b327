"""The rounds of `run`: every proxy once in each scenario and round, in another order each time; and what tables need."""

import os
import platform
import statistics
import subprocess
import sys
import time

import bench
import measures
import proxies


def processors():
    """The CPU of the proxy, and that of load and upstream; None: any."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else (None, None)


class Side:
    """The scenarios in which all proxies speak TLS at the same places."""

    catalogue = bench.SCENARIOS

    def __init__(self, name, scenarios, folder, chosen):
        self.name, self.scenarios, self.chosen = name, scenarios, chosen
        os.mkdir(f"{folder}/{name}", 0o700)
        self.setting = self.setting_in(f"{folder}/{name}", folder)
        self.cpu, self.load_cpu = processors()
        self.figures = {name: {} for name in scenarios}
        self.targets, self.started, self.pss = [], {}, {}
        self.upstream = None

    def setting_in(self, folder, files):
        return bench.Setting(folder, files, bench.SIDES[self.name])

    def others(self):
        """Makers of proxies that run beside the usual ones."""
        return [proxies.envoy] if self.chosen.picture else []

    def start_upstream(self):
        return bench.start_upstream(self.setting, self.load_cpu)

    def run(self, program):
        self.upstream = self.start_upstream()
        try:
            own = proxies.lanyard(self.setting, program, self.chosen.access_log)
            self.targets = [*proxies.peers(self.setting, *self.others()), own]
            for target in self.targets:
                self.started[target.name] = measures.start(target, self.setting, self.cpu)
                self.warm_up(target.name)
            self.pss["rest"] = {name: program.pss() for name, program in self.started.items()}
            for turn in range(self.chosen.rounds):
                self.measure_round(turn)
            self.pss["loaded"] = {name: program.pss() for name, program in self.started.items()}
        finally:
            for program in self.started.values():
                program.stop()
            self.upstream.stop()

    def warm_up(self, name):
        self.load(name, self.scenarios[0], "-n", 1000)

    def load(self, name, scenario, *arguments):
        return bench.load(self.setting.files, self.started[name].port, scenario, *arguments, cpu=self.load_cpu)

    def measure_round(self, turn):
        for place, scenario in enumerate(self.scenarios):
            names = [name for name in self.started if self.has(name, scenario)]
            first = (turn + place) % len(names)
            for name in names[first:] + names[:first]:
                self.figures[scenario].setdefault(name, []).append(self.measure(name, scenario))
            print(f"round {turn + 1}: {self.catalogue[scenario].title}", file=sys.stderr)

    def has(self, _name, _scenario):
        return True

    def amount(self, _scenario):
        """Arguments of the load: how much of it is measured."""
        return "-s", self.chosen.seconds

    def measure(self, name, scenario):
        while True:
            if self.chosen.quiet:
                bench.wait_until_quiet()
            since = time.monotonic(), bench.busy_seconds()
            children, serving = bench.children_seconds(), self.upstream.cpu_seconds()
            before = self.started[name].cpu_seconds()
            result = self.load(name, scenario, *self.amount(scenario))
            used = self.started[name].cpu_seconds() - before
            result["cpu_us"] = used * 1e6 / result["requests"]
            own = used + bench.children_seconds() - children + self.upstream.cpu_seconds() - serving
            if not self.chosen.quiet or bench.share_of_others(since, own) < bench.QUIET_SHARE:
                return result
            print(f"{name}, {self.catalogue[scenario].title}: disturbed, and repeated", file=sys.stderr)

    def medians(self, scenario, figure):
        return {name: statistics.median(result[figure] for result in results)
                for name, results in self.figures[scenario].items()}

    def ratio(self, scenario, peers):
        """CPU of Lanyard to that of the better one of the peers: (median, least, greatest) of the rounds."""
        results = self.figures[scenario]
        there = [results[peer] for peer in peers if peer in results]
        if not there:
            return None
        ratios = [own["cpu_us"] / min(other["cpu_us"] for other in others)
                  for own, *others in zip(results["Lanyard"], *there)]
        return statistics.median(ratios), min(ratios), max(ratios)


def row(cells):
    return "| " + " | ".join(cells) + " |"


def print_head(cells):
    print("\n" + row(cells) + "\n" + "|---" * len(cells) + "|")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        model = next((line.split(":")[1].strip() for line in cpus if line.startswith("model name")), "")
    return {"model": model, "cpus": os.cpu_count(), "kernel": platform.release()}


def commit():
    return subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"], cwd=bench.ROOT,
                          capture_output=True, text=True).stdout.strip()
