import FleetSimulation
import Glibc
import LanyardFoundations

/// `lanyard-simulation`: runs a fleet through virtual years, prints what came of it, and fails where a promise was broken.
struct SimulationCommand {
    private static let usage = """
        usage: lanyard-simulation [--scale N] [--refreshes N] [--seed N] [--threads N] [--least N] [--bug NAME] [--seconds N]
               lanyard-simulation --world SEED --lifetime SECONDS [--span SECONDS] [--guided yes] [--accounts yes|no]
                                  [--variants yes|no] [--bug NAME] [--trace yes]
               lanyard-simulation --search SECONDS [--threads N]

          --scale N      1 is the long run: 1,000,000 session-days at 24-hour tokens, and 100,000 refreshes at each of 2 s, 20 s, 30 min
          --least N      fails unless each fault, state edge and crash point came so often
          --bug NAME     plants a mistake, which must be found; --bug list names them
          --search N     plants each mistake in worlds of its own: each must be found within N s of processor time, and none without it
          --on yes       goes on after a broken promise
          --world SEED   one world, as a failure names it
          --guided yes   a guided one
          --known no     without the worlds that have shown mistakes before
          --accounts     whether operators change accounts; without it, as the seed has it
          --variants     whether routes ask for variants of access tokens; without it, as the seed has it

        """

    private var options: [String: String] = [:]
    private var isUsable = true

    init(_ arguments: [String]) {
        var rest = arguments[...]
        let names: Set = [
            "scale", "seed", "threads", "least", "bug", "seconds", "world", "lifetime", "span", "trace", "on",
            "refreshes", "guided", "accounts", "variants", "search", "known",
        ]
        while let flag = rest.popFirst() {
            guard flag.hasPrefix("--"), names.contains(String(flag.dropFirst(2))), let value = rest.popFirst() else {
                isUsable = false
                return
            }
            options[String(flag.dropFirst(2))] = value
        }
    }

    func run() -> CInt {
        if options["bug"] == "list" {
            for bug in PlantedBug.allCases { print(bug.rawValue) }
            return 0
        }
        let bug = options["bug"].map { PlantedBug(rawValue: $0) }
        guard isUsable, bug != .some(nil) else {
            print(Self.usage)
            return 64
        }
        if options["search"] != nil { return search() }
        let begin = Instant.now
        let report = report(bug ?? nil)
        let seconds = (Instant.now - begin).inSeconds
        print(FleetSummary(report, seconds: seconds).text)
        let least = Int(number("least", 0))
        let failures = FleetSummary(report, seconds: seconds).failures(least: least)
        for failure in failures { print(failure) }
        return report.violations.isEmpty && failures.isEmpty ? 0 : 1
    }

    private func search() -> CInt {
        let begin = Instant.now
        let faults = FleetRun.searchAll(seconds: number("search", 0), threads: max(1, Int(number("threads", 2))))
        let time = Int((Instant.now - begin).inSeconds)
        print("\(PlantedBug.allCases.count) mistakes planted, \(faults.count) faults, in \(time) s")
        for fault in faults { print("broken: \(fault)") }
        return faults.isEmpty ? 0 : 1
    }

    private func report(_ bug: PlantedBug?) -> FleetReport {
        if let seed = options["world"].flatMap({ UInt64($0) }) {
            let lifetime = Duration.seconds(number("lifetime", 86_400))
            let isGuided = options["guided"] != nil
            let share = FleetRun.shares(scale: 1).first { $0.lifetime == lifetime && $0.isGuided == isGuided }
            let span = options["span"] == nil ? share?.span ?? lifetime * 365 : .seconds(number("span", 0))
            var plan = FleetPlan(
                seed: seed, lifetime: lifetime, span: span, bug: bug, isGuided: isGuided,
                changesAccounts: options["accounts"].map { $0 == "yes" },
                hasVariants: options["variants"].map { $0 == "yes" })
            plan.isTraced = options["trace"] != nil
            return FleetWorld(plan).run()
        }
        var run = FleetRun(
            shares: FleetRun.shares(scale: number("scale", 0.02), refreshes: options["refreshes"].flatMap { Int($0) }),
            firstSeed: UInt64(number("seed", 1)),
            threads: Int(number("threads", 2)), bug: bug)
        run.keepsGoing = options["on"] != nil
        run.beginsWithKnown = options["known"] != "no"
        run.secondsMost = number("seconds", .infinity)
        return run.run()
    }

    private func number(_ name: String, _ otherwise: Double) -> Double {
        options[name].flatMap { Double($0) } ?? otherwise
    }
}
