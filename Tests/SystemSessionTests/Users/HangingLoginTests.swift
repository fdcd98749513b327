import TestSupport
import Testing

@testable import SystemTestSupport

/// "All users came in at eight, and the service took a minute for each login."
@Suite struct HangingLoginTests {
    @Test("logins that hang take no refresh's place: users that are logged in stay served")
    func refreshesGoFirst() async throws {
        let clock = try TestClock()
        let bench = try await UsersBench.start(tokens: "4s", under: clock)
        try await bench.untilAlice()
        let alice = try await bench.account("alice")
        try await bench.emulator.control("POST", "/delays", #"{"route":"login","milliseconds":60000,"before":true}"#)
        let before = try await bench.emulator.calls("login")
        let logins = (0..<24).map { number in
            Task { try? await bench.add("guest-\(number)", UsersBench.email("bob")) }
        }
        try await eventually("some of the logins hang at the service") {
            try await bench.emulator.calls("login") == before + 5
        }
        // Beyond what the admin API carries out at once a further caller is told so, and its other calls continue.
        try await bench.lanyard.process.event("admin.call") { $0["result"].string == "overloaded" }
        #expect(try await bench.call("POST", "/users/alice/refresh").status == 200)
        let refused = try await bench.add("one-more", UsersBench.email("bob"))
        #expect(refused.status == 503 && UsersBench.problem(refused) == "overloaded" && refused["Retry-After"] == "1")
        #expect(try await bench.status()["active_user"].string == "alice")
        let refreshes = try await bench.emulator.calls("refresh")
        try await clock.pass(until: "two tokens later", atMost: .seconds(20), grain: .milliseconds(500)) {
            #expect(try await bench.bearer() == alice)
            return try await bench.emulator.calls("refresh") >= refreshes + 2
        }
        #expect(try await bench.emulator.calls("login") == before + 5)
        // Their own logout is no login either.
        #expect(try await bench.call("POST", "/users/alice/logout").json["revoked"].bool == true)
        bench.lanyard.process.signal(9)
        for login in logins { _ = await login.value }
    }
}
