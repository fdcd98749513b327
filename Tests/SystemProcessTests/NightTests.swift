import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// Failures made on purpose: the first line of `lanyard status` has the cause and what to do. Others are in `StatusConditionTests`
/// (stop, reload, store), `StoreTroubleTests` (full disk) and `HangingServiceTests`.
@Suite struct NightTests {
    private static func first(_ admin: RawEndpoint) async throws -> String {
        let run = try await CommandRun(["status", "--admin", "\(admin)"])
        #expect(run.exit == .code(0), "\(run.errors)")
        return String(run.output.prefix { $0 != "\n" })
    }

    /// Waits until the first line has all of these words in their order.
    private static func says(_ admin: RawEndpoint, _ words: String...) async throws {
        let seen = Guarded("")
        do {
            try await eventually("the first line says \(words)") {
                let line = try await first(admin)
                seen.withLock { $0 = line }
                var rest = line[...]
                for word in words {
                    guard let range = rest.firstRange(of: word) else { return false }
                    rest = rest[range.upperBound...]
                }
                return true
            }
        } catch {
            throw TestFailure("\(error); it said: \(seen.withLock { $0 })")
        }
    }

    @Test("the upstream is away, and comes back")
    func upstreamDown() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let upstream = try RawServer()
        let port = upstream.endpoint
        _ = consume upstream
        let running = try await device.start(upstream: port)
        try await running.untilReady()
        let admin = running.admin.endpoint
        try await Self.says(admin, "ready")
        #expect(try await RawClient.ask(running.data, "GET", "/").status == 502)
        try await Self.says(
            admin, "FAILING: route all: the upstream http://\(port) fails: ", "refused", "1 of 1 requests got 5xx",
            "; what to do: repair the upstream or the way to it; ")
        let back = try RawServer(at: port)
        #expect(try await RawClient.ask(running.data, "GET", "/").status == 200)
        // Half of all requests failed; nothing fails now.
        try await Self.says(admin, "WARNING: route all: ", "refused", " ago, 1 of 2 requests got 5xx", "; what to do: ")
        _ = back
    }

    @Test("the identity service is away: the refresh fails, and the token is still valid")
    func refreshFails() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let running = try await device.start()
        try await running.untilReady()
        emulator.process.signal(SIGKILL)
        _ = try await emulator.process.waitForExit()
        _ = try? await running.admin.call("POST", "/v1/users/alice/refresh")
        let url = "http://\(emulator.endpoint)"
        try await Self.says(
            running.admin.endpoint, "WARNING: user alice has a valid token that is not renewed: ",
            "no response of the identity service", url, "the token expires in ",
            "; what to do: check the identity service \(url) and the way to it; ")
        let health = try await CommandRun(["health", "--ready", "--health", "\(running.health)"])
        #expect(health.exit == .code(0), "\(health.errors)")
        #expect(health.errors.first == "warning: session:alice: refresh_failing", "\(health.errors)")
    }

    @Test("the identity service is away, and the token has expired")
    func serviceDown() async throws {
        let emulator = try await EmulatorProcess.start(tokens: EmulatorProcess.life(seconds: 4))
        let device = try await Device.make(emulator, users: [Device.alice])
        let running = try await device.start()
        try await running.untilReady()
        emulator.process.signal(SIGKILL)
        _ = try await emulator.process.waitForExit()
        let url = "http://\(emulator.endpoint)"
        try await Self.says(
            running.admin.endpoint,
            "NOT READY: user alice has no valid token, because the identity service does not respond: ", url,
            "; what to do: check the identity service \(url) and the way to it; ")
    }

    @Test("the session was revoked, and the password is another one")
    func wrongPassword() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let running = try await device.start()
        try await running.untilReady()
        try await emulator.control(
            "POST", "/users/password", #"{"user":"\#(Device.alice.email)","password":"another-one"}"#)
        try await emulator.control("POST", "/sessions/revoke", "{}")
        _ = try? await running.admin.call("POST", "/v1/users/alice/refresh")
        try await Self.says(
            running.admin.endpoint, "NOT READY: user alice cannot log in, because its credential was refused",
            "; what to do: correct the credential of alice")
    }

    @Test("the session was revoked, and nothing can log in again")
    func revoked() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        try await emulator.add("eve@example.com", password: "correct-horse")
        let device = try await Device.make(emulator, users: [Device.alice])
        let running = try await device.start()
        try await running.untilReady()
        try await running.admin.call(
            "POST", "/v1/users",
            #"{"name":"eve","identity":"demo","credential":{"email_password":{"email":"eve@example.com","password":"correct-horse"}}}"#
        )
        try await emulator.control("POST", "/sessions/revoke", "{}")
        _ = try? await running.admin.call("POST", "/v1/users/eve/refresh")
        try await Self.says(
            running.admin.endpoint, "NOT READY: user eve has no session: the last one has ended",
            "; what to do: lanyard login eve")
    }

    @Test("the clocks differ: by how much, and which is ahead")
    func clock() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        try await emulator.control("PUT", "/settings", #"{"clock_offset_seconds":3600}"#)
        let running = try await device.start()
        try await running.untilReady()
        try await Self.says(
            running.admin.endpoint, "WARNING: the identity service's clock is ", " min ahead of this machine's",
            "; what to do: set the clock that is wrong")
    }

    @Test("a certificate ends within 14 days: the one that ends first, and the file to renew")
    func certificate() async throws {
        let (folder, authority) = (try TemporaryFolder(), TestAuthority("Ends"))
        for (name, days) in [("first", 2), ("second", 13)] {
            let issued = authority.issue("DNS:localhost", to: days * 86_400 + 43_200)
            try folder.write("\(name).pem", issued.certificate)
            try folder.write("\(name).key", issued.key)
        }
        func route(_ name: String) -> String {
            "{name: \(name), match: {path: /\(name)}, upstream: \"https://localhost:1\", "
                + "tls: {certificate_file: \(folder.file("\(name).pem")), key_file: \(folder.file("\(name).key"))}}"
        }
        let admin = RawEndpoint.unix(folder.file("admin.sock"))
        let lanyard = try await LanyardProcess.start(
            "routes: [\(route("second")), \(route("first"))]", token: "a-token", admin: "{address: \"\(admin)\"}")
        try await lanyard.untilReady()
        try await Self.says(
            admin, "WARNING: the certificate of route first ends in 2 d (",
            "); what to do: renew \(folder.file("first.pem")), which is read again by itself (1 more below)")
    }

    @Test("the upstream refuses each token")
    func refusedForEver() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let upstream = try RawServer { _ in .response(401, "No", fields: [("WWW-Authenticate", "Bearer")]) }
        let running = try await device.start(upstream: upstream.endpoint)
        try await running.untilReady()
        #expect(try await RawClient.ask(running.data, "GET", "/").status == 401)
        try await Self.says(
            running.admin.endpoint,
            "FAILING: route all: the upstream http://\(upstream.endpoint) has refused even a fresh token",
            "; what to do: check the upstream's clock")
    }

    @Test("the parked requests are at their limit: the response and the status name it")
    func parked() async throws {
        let released = Milestone()
        defer { released.set() }
        let upstream = try RawServer { _ in .response().after(released, "the test has ended") }
        let sockets = try TemporaryFolder()
        let admin = RawEndpoint.unix(sockets.file("admin.sock"))
        let lanyard = try await LanyardProcess.start(
            """
            routes: [{name: all, upstream: "http://\(upstream.endpoint)", connections_max: 1}]
            limits: {parked_requests_max: 1}

            """, token: "a-token", admin: "{address: \"\(admin)\"}")
        try await lanyard.untilReady()
        var clients: [RawClient] = []
        for number in 1...2 {
            let client = try RawClient(lanyard.data)
            try client.send("GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
            clients.append(client)
            try await eventually("request \(number) is at the upstream, or waits") {
                let status = try await RawClient.ask(admin, "GET", "/v1/status").json
                let route = status["routes"][0]
                return (route["in_flight"].int ?? 0) + (route["waiting"].int ?? 0) == number
            }
        }
        let refused = try await RawClient.ask(lanyard.data, "GET", "/")
        #expect(refused.status == 503 && refused.bodyText.contains("limits.parked_requests_max"), "\(refused.bodyText)")
        try await Self.says(
            admin, "FAILING: route all: requests are refused with 503 overloaded: ", "limits.parked_requests_max",
            "; what to do: find out why requests last so long (below), or raise the limit that is named")
        for client in clients { client.close() }
    }

    @Test(
        "no descriptor is left", .enabled("needs prlimit of util-linux") { access("/usr/bin/prlimit", X_OK) == 0 })
    func descriptors() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let running = try await device.start(launcher: ["/usr/bin/prlimit", "--nofile=80:80"])
        try await running.untilReady()
        var clients: [RawClient] = []
        for _ in 0..<120 {
            guard let client = try? RawClient(running.data) else { continue }
            try? client.send("GET / HTTP/1.1\r\nHost: \(running.data)\r\n\r\n")
            clients.append(client)
        }
        try await Self.says(
            running.admin.endpoint, "escriptor", "; what to do: raise ulimit -n, or lower limits.connections_max")
        for client in clients { client.close() }
    }
}
