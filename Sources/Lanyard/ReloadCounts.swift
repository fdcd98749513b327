import LanyardAdmin
import LanyardFoundations

/// What `/metrics` and `lanyard status` say of the reloads. It is made before them, because health is one of their parts. From any thread.
final class ReloadCounts: Sendable {
    private struct Values {
        var successes = 0
        var failures = 0
        /// The load of the start counts.
        var lastSuccessAt = WallTime.now
        /// nil: no reload is in progress.
        var startedAt: Instant?
        /// The latest reload, if it failed.
        var failed: ProgramConditions.FailedReload?
    }

    private let values = Guarded(Values())

    func recordBegin() { values.withLock { $0.startedAt = .now } }

    func recordEnd(_ outcome: ReloadOutcome) {
        values.withLock { values in
            values.startedAt = nil
            switch outcome {
            case .applied: values.failed = nil
            case .restartNeeded(let keys):
                values.failed = .init(
                    at: .now, errors: ["these can change only at a start: \(keys.joined(separator: ", "))"])
            case .invalid(let errors): values.failed = .init(at: .now, errors: errors)
            }
            guard values.failed == nil else { return values.failures += 1 }
            values.successes += 1
            values.lastSuccessAt = .now
        }
    }

    /// The latest reload, if it failed.
    var failed: ProgramConditions.FailedReload? { values.withLock(\.failed) }

    /// The latest reload that succeeded, or the start.
    var latestSuccess: WallTime { values.withLock(\.lastSuccessAt) }

    /// It never waits for a comparison of configurations.
    var samples: [MetricSample] {
        let values = values.withLock { $0 }
        let results = [("success", values.successes), ("failure", values.failures)].map { result, count in
            MetricSample(
                "lanyard_config_reloads", suffix: "_total", labels: [.init("result", result)], value: Double(count))
        }
        let success = MetricSample(
            "lanyard_config_last_reload_success_timestamp_seconds",
            value: Double(values.lastSuccessAt.nanoseconds) / 1e9)
        let running = MetricSample(
            "lanyard_config_reload_running_seconds",
            value: values.startedAt.map { Double((Instant.now - $0).nanoseconds) / 1e9 } ?? 0)
        return results + [success, running]
    }
}
