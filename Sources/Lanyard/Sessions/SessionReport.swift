/// All sessions at one instant, with the counters. The service keeps it outside its queue for readers on any thread.
package struct SessionReport: Sendable {
    struct Attempt: Hashable, Sendable {
        var name: String
        var labels: [MetricSample.Label]
    }

    /// In the order of the configuration.
    package internal(set) var users: [SessionStatus] = []
    /// The user that routes without a user of their own follow.
    package internal(set) var activeUser: UserIndex?
    /// The number of refresh calls under way.
    package internal(set) var refreshesInFlight = 0
    /// The store is in memory: nothing outlives a restart.
    package internal(set) var isStoreInMemory = false
    /// Some change of some user is unsaved; it is tried again.
    package var isStoreFailing: Bool { isActiveUserUnsaved || users.contains { $0.isStoreFailing } }
    /// The change of the active user is unsaved; it is tried again.
    var isActiveUserUnsaved = false
    var refreshDurations: [MetricSample] = []
    var clockJumps = 0
    var skew: Duration?
    var attempts: [Attempt: Int] = [:]

    /// The sessions' part of `/metrics` (names: architecture.md 7.2).
    package var samples: [MetricSample] {
        var samples: [MetricSample] = []
        for user in users { add(user, to: &samples) }
        samples.append(MetricSample("lanyard_refresh_inflight", value: Double(refreshesInFlight)))
        samples += refreshDurations
        samples.append(MetricSample("lanyard_clock_jumps", suffix: "_total", value: Double(clockJumps)))
        if let skew { samples.append(MetricSample("lanyard_clock_skew_seconds", value: skew.inSeconds)) }
        for (attempt, count) in attempts.sorted(by: { $0.key.order < $1.key.order }) {
            samples.append(
                MetricSample(attempt.name, suffix: "_total", labels: attempt.labels, value: Double(count)))
        }
        return samples
    }

    private func add(_ user: SessionStatus, to samples: inout [MetricSample]) {
        let label = MetricSample.Label("user", user.user)
        for state in SessionState.allCases {
            samples.append(
                MetricSample(
                    "lanyard_session_state", labels: [label, .init("state", state.rawValue)],
                    value: state == user.state ? 1 : 0))
        }
        let times: [(String, WallTime?)] = [
            ("lanyard_access_token_expiry_timestamp_seconds", user.accessTokenExpiry),
            ("lanyard_refresh_token_expiry_timestamp_seconds", user.refreshTokenExpiry),
            ("lanyard_next_refresh_timestamp_seconds", user.nextRefreshAt),
        ]
        for case (let name, let time?) in times {
            samples.append(MetricSample(name, labels: [label], value: Double(time.nanoseconds) / 1e9))
        }
        if user.index == activeUser {
            samples.append(MetricSample("lanyard_active_user", suffix: "_info", labels: [label], value: 1))
        }
    }

    // MARK: Counters that are 0 before the first event: `rate()` does not see the step from nothing to 1.

    mutating func expectLogins(by provider: String) {
        let results = IdentityError.Verdict.loginResultLabels + ["success", "late"]
        for result in results {
            expect("lanyard_login_attempts", [.init("provider", provider), .init("result", result)])
        }
    }

    /// Only the two causes that repeat by themselves: all of them would be 70 series for each user.
    mutating func expectRefreshes(of user: String) {
        for reason in ["cooldown", "per_hour_max"] {
            expect("lanyard_refresh_denied", [.init("user", user), .init("reason", reason)])
        }
        for result in IdentityError.Verdict.refreshResultLabels + ["success"] {
            for cause in [SessionCall.Cause.scheduled, .retry] {
                expect(
                    "lanyard_refresh_attempts",
                    [.init("user", user), .init("result", result), .init("reason", cause.rawValue)])
            }
        }
    }

    mutating func expectWrites() {
        for result in ["stored", "overtaken", "failed"] { expect("lanyard_store_writes", [.init("result", result)]) }
    }

    private mutating func expect(_ name: String, _ labels: [MetricSample.Label]) {
        attempts[Attempt(name: name, labels: labels), default: 0] += 0
    }

    mutating func count(_ name: String, _ labels: [MetricSample.Label]) {
        attempts[Attempt(name: name, labels: labels), default: 0] += 1
    }
}

extension SessionReport.Attempt {
    /// A stable order that keeps families together.
    fileprivate var order: String { labels.reduce(name) { $0 + "\u{1}" + $1.value } }
}
