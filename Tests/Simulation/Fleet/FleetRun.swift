import CLinux
import Dispatch
import Glibc
import LanyardFoundations

/// Many worlds, one after another on each of some threads: what `lanyard-simulation` runs.
package struct FleetRun: Sendable {
    /// Worlds of one kind, until they have come to so much.
    package struct Share: Sendable {
        package var lifetime: Duration
        /// Of one world.
        package var span: Duration
        /// nil: no such aim.
        package var sessionDays: Double?
        package var refreshes: Int?
        package var worlds: Int?
        /// `FleetPlan.isGuided` of each of them.
        package var isGuided = false

        package init(lifetime: Duration, span: Duration, sessionDays: Double? = nil, refreshes: Int? = nil) {
            self.lifetime = lifetime
            self.span = span
            self.sessionDays = sessionDays
            self.refreshes = refreshes
        }

        func isReached(by report: FleetReport) -> Bool {
            report.sessionDays >= sessionDays ?? 0 && report.refreshes >= refreshes ?? 0 && report.worlds >= worlds ?? 0
        }
    }

    package var shares: [Share]
    package var firstSeed: UInt64
    package var threads: Int
    package var bug: PlantedBug?
    /// Begins no further world after so many seconds.
    package var secondsMost = Double.infinity
    /// Begins with the worlds that have shown mistakes.
    package var beginsWithKnown = true
    /// Goes on with other worlds after a broken promise.
    package var keepsGoing = false

    package init(shares: [Share], firstSeed: UInt64 = 1, threads: Int = 1, bug: PlantedBug? = nil) {
        self.shares = shares
        self.firstSeed = firstSeed
        self.threads = threads
        self.bug = bug
    }

    /// The parts of a run of `scale`, 1 being the long one: a million session-days at 24-hour tokens, at each short
    /// life 100,000 refreshes, and some guided worlds.
    ///
    /// - Parameter refreshes: at each of the short lives; nil: by the scale.
    package static func shares(scale: Double, refreshes: Int? = nil) -> [Share] {
        let short = [(2, 3), (20, 30), (1800, 1800)].map { life, hours in
            Share(lifetime: .seconds(life), span: .seconds(hours * 3600), refreshes: refreshes ?? Int(100_000 * scale))
        }
        let days = Duration.seconds(86_400)
        return short + [Share(lifetime: days, span: days * 365, sessionDays: 1_000_000 * scale)]
            + guided(scale: scale)
    }

    /// A day each, in which a lead is never far.
    private static func guided(scale: Double) -> [Share] {
        [(20, 8), (1800, 40), (86_400, 30)].map { life, worlds in
            var share = Share(lifetime: .seconds(life), span: .seconds(86_400))
            share.worlds = max(1, Int(worlds * scale))
            share.isGuided = true
            return share
        }
    }

    /// Worlds with a planted mistake, one of each kind after another, until one shows it.
    ///
    /// - Parameter seconds: of this thread's processor time, so that other load does not shorten the search.
    /// - Returns: the plan of the world that shows it; nil: none did.
    package static func search(for bug: PlantedBug, seconds: Double) -> FleetPlan? {
        let spans: [(life: Double, days: Double)] = [(20, 0.2), (1800, 6), (86_400, 200)]
        let end = processorSeconds() + seconds
        var seed: UInt64 = 1
        while processorSeconds() < end {
            let (life, days) = spans[Int(seed % 3)]
            // Only in a guided world another program renews a token.
            let isGuided = bug == .unreadServed
            let plan = FleetPlan(
                seed: seed, lifetime: .seconds(life), span: .seconds((isGuided ? 1 : days) * 86_400), bug: bug,
                isGuided: isGuided, changesAccounts: bug.needsAccounts ? true : nil, hasVariants: bug.promise != nil)
            let violations = FleetWorld(plan).run().violations
            if violations.contains(where: { $0.promise == bug.promise ?? $0.promise }) { return plan }
            seed += 1
        }
        return nil
    }

    /// Searches for each planted mistake. Then runs the worlds that have shown one without it: they must come out clean.
    ///
    /// - Parameter seconds: of a thread's processor time, for each mistake.
    /// - Returns: what went wrong, a line each: what was not found, and what was found in sound worlds.
    package static func searchAll(seconds: Double, threads: Int) -> [String] {
        let found = Guarded((plans: [FleetPlan](), faults: [String]()))
        forEach(of: PlantedBug.allCases, threads: threads) { bug in
            let plan = search(for: bug, seconds: seconds)
            found.withLock { found in
                if let plan {
                    found.plans.append(plan.sound)
                } else {
                    found.faults.append("the planted \(bug.rawValue) was not found")
                }
            }
        }
        let plans = Dictionary(found.withLock(\.plans).map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        forEach(of: plans.sorted { $0.key < $1.key }.map(\.value), threads: threads) { plan in
            let violations = FleetWorld(plan).run().violations
            found.withLock { $0.faults += violations.map { "\($0)" } }
        }
        return found.withLock(\.faults)
    }

    private static func forEach<Element: Sendable>(
        of elements: [Element], threads: Int, _ body: @Sendable (Element) -> Void
    ) {
        let rest = Guarded(elements[...])
        DispatchQueue.concurrentPerform(iterations: threads) { _ in
            while let element = rest.withLock({ $0.popFirst() }) { body(element) }
        }
    }

    /// What this thread has used so far.
    private static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// Stops at the first broken promise, unless told to continue.
    package func run() -> FleetReport {
        var whole = FleetReport()
        if bug == nil, beginsWithKnown { whole.add(runKnown()) }
        let begin = Instant.now
        for share in shares where keepsGoing || whole.violations.isEmpty {
            whole.add(run(share, until: begin + .seconds(min(secondsMost, 1e6))))
        }
        return whole
    }

    private func runKnown() -> FleetReport {
        let state = Guarded((report: FleetReport(), rest: FleetRegression.all[...]))
        DispatchQueue.concurrentPerform(iterations: threads) { _ in
            while let known = state.withLock({ $0.rest.popFirst() }) {
                let report = FleetWorld(known.plan).run()
                state.withLock { $0.report.add(report) }
            }
        }
        return state.withLock { $0.report }
    }

    private func run(_ share: Share, until deadline: Instant) -> FleetReport {
        let tally = Tally(firstSeed, keepsGoing: keepsGoing)
        DispatchQueue.concurrentPerform(iterations: threads) { _ in
            while let seed = tally.next(share, until: deadline) {
                let plan = FleetPlan(
                    seed: seed, lifetime: share.lifetime, span: share.span, bug: bug, isGuided: share.isGuided)
                tally.add(FleetWorld(plan).run())
            }
        }
        return tally.report
    }

    /// What all threads have come to.
    private final class Tally: Sendable {
        private let state: Guarded<(report: FleetReport, seed: UInt64)>

        private let keepsGoing: Bool

        init(_ firstSeed: UInt64, keepsGoing: Bool) {
            state = Guarded((FleetReport(), firstSeed))
            self.keepsGoing = keepsGoing
        }

        var report: FleetReport { state.withLock { $0.report } }

        func add(_ report: FleetReport) { state.withLock { $0.report.add(report) } }

        /// The seed of the next world; nil: enough.
        func next(_ share: Share, until deadline: Instant) -> UInt64? {
            state.withLock { state in
                let hasCertificate = keepsGoing || state.report.violations.isEmpty
                guard hasCertificate, !share.isReached(by: state.report), .now < deadline else { return nil }
                defer { state.seed += 1 }
                return state.seed
            }
        }
    }
}
