import LanyardSessions

/// What a run has counted: how much life was simulated, and how often each fault, state edge and crash point came.
package struct FleetReport: Sendable {
    /// A change of a session's state.
    package struct Edge: Hashable, Sendable {
        package var from: SessionState
        package var to: SessionState

        package var name: String { "\(from.rawValue) -> \(to.rawValue)" }
        var index: Int { Self.places[from]! * SessionState.allCases.count + Self.places[to]! }

        static let count = SessionState.allCases.count * SessionState.allCases.count
        private static let places = Dictionary(
            uniqueKeysWithValues: SessionState.allCases.enumerated().map { ($1, $0) })

        init(from: SessionState, to: SessionState) {
            self.from = from
            self.to = to
        }

        init(index: Int) {
            let states = SessionState.allCases
            self.init(from: states[index / states.count], to: states[index % states.count])
        }
    }

    package var worlds = 0
    /// Users times the days that they were simulated.
    package var sessionDays = 0.0
    /// Refreshes that the service carried out.
    package var refreshes = 0
    package var logins = 0
    package var adoptions = 0
    package var writes = 0
    package var requests = 0
    package var refusedRequests = 0
    /// Of them, those for a variant.
    package var variantRequests = 0
    package var refusedVariantRequests = 0
    /// Fetches of variants that the service carried out; they count as refreshes or logins, too.
    package var fetches = 0
    package var restarts = 0
    package var checks = 0
    package var faults = [Int](repeating: 0, count: FleetFault.allCases.count)
    package var situations = [Int](repeating: 0, count: FleetSituation.allCases.count)
    package var edges = [Int](repeating: 0, count: Edge.count)
    package var crashes = [Int](repeating: 0, count: CrashPoint.count)
    /// Broken promises, each with the seed that shows it.
    package var violations: [FleetViolation] = []

    package init() {}

    mutating func count(_ fault: FleetFault) { faults[fault.rawValue] += 1 }

    mutating func count(_ situation: FleetSituation) { situations[situation.rawValue] += 1 }

    /// What another part of the run has counted.
    package mutating func add(_ other: FleetReport) {
        worlds += other.worlds
        sessionDays += other.sessionDays
        refreshes += other.refreshes
        logins += other.logins
        adoptions += other.adoptions
        writes += other.writes
        requests += other.requests
        refusedRequests += other.refusedRequests
        variantRequests += other.variantRequests
        refusedVariantRequests += other.refusedVariantRequests
        fetches += other.fetches
        restarts += other.restarts
        checks += other.checks
        for place in faults.indices { faults[place] += other.faults[place] }
        for place in situations.indices { situations[place] += other.situations[place] }
        for place in edges.indices { edges[place] += other.edges[place] }
        for place in crashes.indices { crashes[place] += other.crashes[place] }
        violations += other.violations
    }
}
