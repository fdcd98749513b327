import Foundation
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

    /// The key of a store, in a folder of its own.
    private final class KeyFile: Sendable {
        private let folder = try? TemporaryFolder()

        init() { _ = try? folder?.write("key", String(repeating: "k", count: 64)) }

        var path: String { folder?.file("key") ?? "" }
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

    /// What the sessions do: they read a store, which may hang.
    private final class HeldUsers: ReloadableUsers {
        private let appliedNumbers = Guarded<[Int]>([])
        private let stores = Guarded<[Int: Milestone]>([:])
        private let waitingNumbers = Guarded<[Int]>([])

        /// The number of each load that was applied, in order, above 100.
        var applied: [Int] { appliedNumbers.withLock { $0 } }
        /// Of the loads for which the store is read.
        var waiting: [Int] { waitingNumbers.withLock { $0 } }

        func hangStore(of number: Int) { stores.withLock { $0[number] = Milestone() } }
        func releaseStore(of number: Int) { stores.withLock { $0[number] }?.set() }

        func prepare(_ next: NextConfiguration) -> Int { next.configuration.limits.connectionsMax }

        func commit(
            _ number: Int, begins: @escaping @Sendable () -> Bool, serve: @escaping @Sendable (UserIndex?) -> Void,
            reply: @escaping @Sendable ([String]?) -> Void
        ) {
            let take = { @Sendable [self] in
                guard begins() else { return reply(nil) }
                appliedNumbers.withLock { $0.append(number) }
                serve(nil)
                reply([])
            }
            guard let store = stores.withLock({ $0[number] }), !store.isSet else { return take() }
            waitingNumbers.withLock { $0.append(number) }
            Thread.detachNewThread {
                store.wait(for: "the store")
                take()
            }
        }

        func finish(_ number: Int) {}
    }

    /// A part that notes what becomes of it.
    private final class NotingPart: Reloadable {
        private let noted = Guarded<[String]>([])

        var notes: [String] { noted.withLock { $0 } }

        func prepare(_ next: NextConfiguration) throws(ReloadError) -> Int {
            let number = next.configuration.limits.connectionsMax
            if number == Self.refused { throw ReloadError(message: "it has no room") }
            note("prepare", number)
            return number
        }

        func commit(_ number: Int, active: UserIndex?) { note("commit", number) }
        func finish(_ number: Int) { note("finish", number) }

        private func note(_ step: String, _ number: Int) { noted.withLock { $0.append("\(step) \(number)") } }

        /// The number of a configuration that it cannot take.
        static let refused = 105
    }

    private final class Bench: Sendable {
        static let path = "/net/tls/clients.pem"
        static let storePath = "/nowhere/sessions"
        /// Of the store.
        static let keyFile = KeyFile()

        let loop: EventLoop
        let log = LogRecorder()
        let coordinator: ReloadCoordinator
        let loads: Loads
        let users = HeldUsers()
        let part = NotingPart()

        init(hanging numbers: [Int], readingAgeMax: Duration = .seconds(3600)) throws {
            loop = try EventLoop(label: "test.reload")
            let loads = Loads(hanging: numbers)
            self.loads = loads
            coordinator = ReloadCoordinator(
                Self.configuration(0), load: { loads.load() }, activation: ActivationRules(addresses: [:]),
                users: users, parts: [part], on: loop, readingAgeMax: readingAgeMax, log: log.logger)
            loop.start()
            loop.freezeTime()
        }

        deinit { loop.stop() }

        /// The store does not respond to the sessions for these loads.
        func hangStore(of numbers: [Int]) { for number in numbers { users.hangStore(of: 100 + number) } }

        func releaseStore(of number: Int) { users.releaseStore(of: 100 + number) }

        /// The sessions wait for the store on behalf of this load.
        func awaitStore(_ number: Int) throws {
            try blockUntil("the sessions read the store for load \(number)") { users.waiting.contains(100 + number) }
        }

        var applied: [Int] { users.applied }

        static func configuration(_ number: Int) -> LoadedConfiguration {
            let text = """
                limits: {connections_max: \(number + 100)}
                identities: {demo: {static: {token_file: /nowhere/token}}}
                users: {alice: {identity: demo}}
                routes: [{upstream: "http://127.0.0.1:9000"}]
                store: {path: \(storePath), key_file: \(keyFile.path)}
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

    @Test("each part prepares, commits with the users and finishes after them; if one cannot, nothing has changed")
    func parts() throws {
        let bench = try Bench(hanging: [])
        for number in 1...5 {
            let outcome = try bench.reload().awaited()
            if 100 + number == NotingPart.refused {
                #expect(outcome == .invalid(["it has no room"]))
            } else {
                #expect(outcome == .applied(["limits.connections_max"]))
            }
        }
        #expect(bench.part.notes == (101...104).flatMap { ["prepare \($0)", "commit \($0)", "finish \($0)"] })
        #expect(bench.applied == [101, 102, 103, 104])
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
            bench.coordinator.abandonedCount == 0 || bench.applied.count > 1
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

    @Test("a reload whose store hangs is logged by the store's name after 5 s; a later one takes its place and wins")
    func storeHangs() throws {
        let bench = try Bench(hanging: [])
        bench.hangStore(of: [1, 2])
        let first = bench.reload()
        try bench.awaitStore(1)
        let second = bench.reload()
        bench.loop.pass(FileWatch.readTimeout - .nanoseconds(1))
        #expect(bench.lines("reload.delayed").isEmpty && bench.loads.begun == 1)
        bench.loop.pass(.nanoseconds(1))
        let lines = bench.lines("reload.delayed")
        #expect(lines.count == 1 && lines.allSatisfy { $0.contains(Bench.storePath) }, "\(lines)")
        guard case .invalid(let reasons) = try first.awaited() else {
            Issue.record("the first reload was not given up")
            return
        }
        #expect(reasons.count == 1 && reasons[0].contains(Bench.storePath) && reasons[0].contains("later reload"))
        try bench.awaitStore(2)
        bench.releaseStore(of: 1)
        try blockUntil("the first one has ended") { bench.coordinator.abandonedCount == 0 }
        #expect(bench.applied.isEmpty && second.value == nil)
        bench.releaseStore(of: 2)
        #expect(try second.awaited() == .applied(["limits.connections_max"]))
        #expect(bench.applied == [102])
        #expect(bench.runningSeconds == 0)
    }

    @Test("a reload whose files have hung and whose store hangs then is logged twice, and waits 5 s for each")
    func bothHang() throws {
        let bench = try Bench(hanging: [1])
        bench.hangStore(of: [1])
        _ = bench.reload()
        try bench.awaitLoad(1)
        bench.loop.pass(FileWatch.readTimeout)
        bench.loads.release(1)
        try bench.awaitStore(1)
        let second = bench.reload()
        bench.loop.pass(FileWatch.readTimeout - .nanoseconds(1))
        #expect(bench.loads.begun == 1 && second.value == nil)
        bench.loop.pass(.nanoseconds(1))
        let lines = bench.lines("reload.delayed")
        #expect(lines.map { $0.contains(Bench.storePath) } == [false, true], "\(lines)")
        #expect(try second.awaited() == .applied(["limits.connections_max"]))
        #expect(bench.applied == [102])
        bench.releaseStore(of: 1)
    }

    @Test("files that were read too long before the store are read anew, three times at most")
    func readAnew() throws {
        // Less than no time besides the work.
        let bench = try Bench(hanging: [], readingAgeMax: .seconds(-1))
        // Each time the files themselves are read three times, as that takes longer, too.
        #expect(try bench.reload().awaited() == .applied(["limits.connections_max"]))
        #expect(bench.loads.begun == 9 && bench.applied == [109])
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
