import TestSupport
import Testing

@testable import SystemTestSupport

/// What an alert counts is there before it happens: `rate()` does not see the step from nothing to 1.
@Suite struct FirstMetricsTests {
    @Test("counters of logins, refreshes, writes, responses, reloads, lookups and waits begin at 0")
    func zero() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let lanyard = try await LanyardProcess.start(emulator)
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics")
        let metrics = try ExpositionReader(page.body, openMetrics: false)
        for result in ["late", "transient", "credential_refused", "gone", "unknown_app", "credential_unavailable"] {
            let labels = ["provider": "email_password", "result": result]
            #expect(metrics["lanyard_login_attempts_total", labels] == 0, "\(result)")
        }
        for result in ["transient", "unknown_outcome", "session_dead", "gone", "unknown_app"] {
            let labels = ["user": "alice", "result": result, "reason": "scheduled"]
            #expect(metrics["lanyard_refresh_attempts_total", labels] == 0, "\(result)")
        }
        for reason in ["cooldown", "per_hour_max"] {
            #expect(metrics["lanyard_refresh_denied_total", ["user": "alice", "reason": reason]] == 0)
        }
        for result in ["overtaken", "failed"] {
            #expect(metrics["lanyard_store_writes_total", ["result": result]] == 0)
        }
        for origin in ["upstream", "lanyard"] {
            let labels = ["route": "all", "code_class": "5xx", "origin": origin]
            #expect(metrics["lanyard_requests_total", labels] == 0)
        }
        for result in ["success", "failure"] {
            #expect(metrics["lanyard_config_reloads_total", ["result": result]] == 0)
        }
        for result in ["success", "failure", "timeout"] {
            #expect(metrics["lanyard_dns_lookups_total", ["result": result]] == 0)
        }
        #expect(metrics["lanyard_upstream_waits_total", ["route": "all"]] == 0)
    }
}
