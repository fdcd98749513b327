import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import Lanyard

/// Reloads whose files hang.
@Suite struct ReloadCoordinatorTests {
    /// Loads that a test holds up.
    private final class Loads: Sendable {
        private let begunCount = Guarded(0)
        private let gates: [Int: Milestone]

        init(hanging numbers: [Int]) { gates = Dictionary(uniqueKeysWithValues: numbers.map { ($0, Milestone()) }) }

        var begun: Int { begunCount.withLock { $0 } }

        func release(_ number: Int) { gates[number]?.set() }

        func load() -> LoadedConfiguration {
            let number = begunCount.withLock { count in
                count += 1
                return count
            }
            FileProgress.note(Bench.path)
            gates[number]?.wait(for: "load \(number) to be released")
            return Bench.configuration(number)
        }
    }

    /// What becomes of one reload.
    private final class Outcome: Sendable {
        private let held = Guarded<ReloadOutcome?>(nil)

        /// nil: it has not ended.
        var value: ReloadOutcome? { held.withLock { $0 } }

        func set(_ outcome: ReloadOutcome) { held.withLock { $0 = outcome } }

        func awaited() throws -> ReloadOutcome? {
            try blockUntil("the reload has ended") { value != nil }
            return value
        }
    }

    private final class Bench: Sendable {
        static let path = "/net/tls/clients.pem"

        let loop: EventLoop
        let log = LogRecorder()
        let coordinator: ReloadCoordinator
        let loads: Loads
        private let appliedNumbers = Guarded<[Int]>([])

        init(hanging numbers: [Int]) throws {
            loop = try EventLoop(label: "test.reload")
            let loads = Loads(hanging: numbers)
            self.loads = loads
            coordinator = ReloadCoordinator(
                Self.configuration(0), load: { loads.load() }, activation: ActivationRules(addresses: [:]),
                log: log.logger)
            coordinator.apply = { [weak self] configuration, _, _ in
                self?.appliedNumbers.withLock { $0.append(configuration.limits.connectionsMax) }
                return []
            }
            coordinator.reportDelays(on: loop)
            loop.start()
            loop.freezeTime()
        }

        deinit { loop.stop() }

        /// The number of each load that was applied, in order, above 100.
        var applied: [Int] { appliedNumbers.withLock { $0 } }

        static func configuration(_ number: Int) -> LoadedConfiguration {
            let text = """
                limits: {connections_max: \(number + 100)}
                identities: {demo: {static: {token_file: /nowhere/token}}}
                users: {alice: {identity: demo}}
                routes: [{upstream: "http://127.0.0.1:9000"}]
                """
            return Configuration.load(text: Array(text.utf8), path: "/nowhere/lanyard.yaml")
        }

        /// Requests a reload. Its outcome comes later.
        func reload() -> Outcome {
            let outcome = Outcome()
            coordinator.reload { outcome.set($0) }
            return outcome
        }

        func awaitLoad(_ number: Int) throws {
            try blockUntil("load \(number) has begun") { loads.begun >= number }
        }

        /// Lines of this event.
        func lines(_ event: String) -> [String] { log.lines.filter { $0.contains("\"event\": \(event)") } }

        var runningSeconds: Double {
            coordinator.samples.first { $0.name == "lanyard_config_reload_running_seconds" }?.value ?? -1
        }
    }

    @Test(
        "a reload whose file hangs is logged after 5 s and shown in the metrics; it is applied when the file can be read"
    )
    func hanging() throws {
        let bench = try Bench(hanging: [1])
        #expect(bench.runningSeconds == 0)
        let outcome = bench.reload()
        try bench.awaitLoad(1)
        bench.loop.pass(FileWatch.readTimeout - .nanoseconds(1))
        #expect(bench.lines("reload.delayed").isEmpty)
        bench.loop.pass(.nanoseconds(1))
        let lines = bench.lines("reload.delayed")
        #expect(lines.count == 1 && lines.allSatisfy { $0.contains(Bench.path) && $0.hasPrefix("warning") }, "\(lines)")
        #expect(bench.runningSeconds > 0)
        #expect(outcome.value == nil && bench.applied.isEmpty)
        bench.loads.release(1)
        #expect(try outcome.awaited() == .applied(["limits.connections_max"]))
        #expect(bench.applied == [101])
        bench.loop.pass(.seconds(60))
        #expect(bench.lines("reload.delayed").count == 1)
        #expect(bench.runningSeconds == 0)
    }

    @Test("a later reload waits for its turn for 5 s, then takes the place of the one that hangs, and wins")
    func laterWins() throws {
        let bench = try Bench(hanging: [1])
        let first = bench.reload()
        try bench.awaitLoad(1)
        let second = bench.reload()
        bench.loop.pass(FileWatch.readTimeout - .nanoseconds(1))
        #expect(bench.loads.begun == 1 && second.value == nil)
        bench.loop.pass(.nanoseconds(1))
        #expect(try second.awaited() == .applied(["limits.connections_max"]))
        guard case .invalid(let reasons) = try first.awaited() else {
            Issue.record("the first reload was not given up")
            return
        }
        #expect(reasons.count == 1 && reasons[0].contains(Bench.path) && reasons[0].contains("later reload"))
        #expect(bench.lines("reload.failed").count == 1)
        bench.loads.release(1)
        // What the first one has read at last is never applied.
        try blockUntil("the first one's thread has ended") {
            bench.coordinator.abandonedThreadCount == 0 || bench.applied.count > 1
        }
        #expect(bench.applied == [102])
        #expect(try bench.reload().awaited() == .applied(["limits.connections_max"]))
        #expect(bench.applied == [102, 103])
    }

    @Test("a later reload that is requested after 5 s does not wait; each that hangs is logged")
    func afterDelay() throws {
        let bench = try Bench(hanging: [1, 2])
        let outcomes = [bench.reload()]
        try bench.awaitLoad(1)
        bench.loop.pass(FileWatch.readTimeout)
        let second = bench.reload()
        try bench.awaitLoad(2)
        bench.loop.pass(FileWatch.readTimeout)
        #expect(bench.lines("reload.delayed").count == 2)
        let third = bench.reload()
        #expect(try third.awaited() == .applied(["limits.connections_max"]))
        for outcome in outcomes { #expect(outcome.value?.isApplied == false) }
        #expect(second.value?.isApplied == false)
        for number in [1, 2] { bench.loads.release(number) }
    }

    @Test("eight threads at most wait for files of reloads that were given up; then later reloads wait as well")
    func threads() throws {
        let bench = try Bench(hanging: Array(1...9))
        for number in 1...9 {
            _ = bench.reload()
            try bench.awaitLoad(number)
            bench.loop.pass(FileWatch.readTimeout)
        }
        let last = bench.reload()
        bench.loop.pass(.seconds(60))
        #expect(bench.loads.begun == 9 && last.value == nil)
        bench.loads.release(3)
        #expect(try last.awaited() == .applied(["limits.connections_max"]))
        #expect(bench.applied == [110])
        for number in 1...9 { bench.loads.release(number) }
    }
}

extension ReloadOutcome {
    fileprivate var isApplied: Bool { if case .applied = self { true } else { false } }
}
