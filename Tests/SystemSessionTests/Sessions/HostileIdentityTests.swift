import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard with alice at a healthy OAuth server and mallory at a hostile one, which grants each login and refuses each refresh,
/// and whose revocations never end.
@Suite struct HostileIdentityTests {
    private static let json = [("Content-Type", "application/json")]

    /// What a server has been asked.
    private final class Record: Sendable {
        private let box = Guarded(Counts())

        func change<Value>(_ body: (inout Counts) -> Value) -> Value { box.withLock { body(&$0) } }

        var counts: Counts { box.withLock { $0 } }
    }

    private struct Counts {
        var logins = 0
        var refreshes = 0
        var revocations: [String] = []
        /// The refresh token that it accepts next.
        var current = ""
        /// A refresh token came that is not the latest.
        var isReused = false
    }

    private static func grant(_ number: Int, lifetime: Int, padding: Int = 0) -> RawResponse {
        let token = "a\(number)" + String(repeating: "x", count: padding)
        return .response(
            fields: json,
            body:
                #"{"access_token":"\#(token)","token_type":"Bearer","expires_in":\#(lifetime),"refresh_token":"r\#(number)"}"#
        )
    }

    private static func healthy(_ record: Record) throws -> RawServer {
        try RawServer { request in
            let body = request.message.bodyText
            if request.message.target == "/revoke" {
                record.change { $0.revocations.append(body) }
                return .response(body: "")
            }
            return record.change { counts in
                if body.contains("grant_type=refresh_token") {
                    counts.refreshes += 1
                    if !body.contains("refresh_token=\(counts.current)&")
                        && !body.hasSuffix("refresh_token=\(counts.current)")
                    {
                        counts.isReused = true
                    }
                } else {
                    counts.logins += 1
                }
                let number = counts.logins + counts.refreshes
                counts.current = "r\(number)"
                return grant(number, lifetime: 4)
            }
        }
    }

    private static func hostile(_ record: Record, until end: Milestone) throws -> RawServer {
        try RawServer { request in
            let body = request.message.bodyText
            if request.message.target == "/revoke" {
                record.change { $0.revocations.append(body) }
                return .response(body: "").after(end, "the end of the test")
            }
            return record.change { counts in
                if body.contains("grant_type=refresh_token") {
                    counts.refreshes += 1
                    return .response(400, "Bad Request", fields: json, body: #"{"error":"unauthorized_client"}"#)
                }
                counts.logins += 1
                return grant(counts.logins, lifetime: 2, padding: 20_000)
            }
        }
    }

    @Test(
        "its logins are put off more and more; another identity's tokens rotate, survive a restart, and are revoked at once"
    )
    func shares() async throws {
        let clock = try TestClock()
        let (good, bad) = (Record(), Record())
        let end = Milestone()
        let servers = (try Self.healthy(good), try Self.hostile(bad, until: end))
        defer { end.set() }
        let folder = try TemporaryFolder()
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("password", "p")
        func identity(_ server: RawServer) -> String {
            "{oauth2: {endpoints: {token: \"http://\(server.endpoint)/token\", "
                + "revocation: \"http://\(server.endpoint)/revoke\"}, client_id: lanyard, rotation: one_use}}"
        }
        let admin = folder.file("admin.sock")
        func start() async throws -> LanyardProcess {
            try await LanyardProcess.start(
                """
                identities: {good: \(identity(servers.0)), hostile: \(identity(servers.1))}
                users:
                  alice: {identity: good, login: {password: {username: alice, password_file: \(folder.file("password"))}}}
                  mallory: {identity: hostile, login: {password: {username: mallory, password_file: \(folder.file("password"))}}}
                active_user: alice
                routes: [{name: all, upstream: "http://127.0.0.1:9", user: alice}]
                store: {path: \(folder.file("store/sessions")), key_file: \(folder.file("key"))}

                """, admin: "{address: \"unix:\(admin)\"}", under: clock)
        }
        let first = try await start()
        try await first.untilReady()
        clock.stop()
        // No revocation has been in progress for its 30 s yet: each call that was made holds a slot.
        try await clock.pass(.seconds(25), grain: .milliseconds(200))
        #expect(bad.counts.revocations.count <= 4)
        try await clock.pass(.seconds(15), grain: .milliseconds(200))
        clock.run()
        let (asked, refreshes) = (bad.counts, good.counts.refreshes)
        // Sessions of 1.4 s: 28 without a pause, and with pauses of 1 to 2 s doubled six or seven.
        #expect(4...9 ~= asked.logins, "\(asked.logins) logins")
        #expect(refreshes >= 6 && !good.counts.isReused)
        let line = try await first.process.event("session.login.put_off")
        #expect(line["user"].string == "mallory" && line["next_at"].string != nil)
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()

        let second = try await start()
        try await eventually("the stored refresh token is used") { good.counts.refreshes > refreshes }
        #expect(!good.counts.isReused && good.counts.logins == 1)
        // Mallory's revocations hang in all their slots.
        let response = try await RawClient.ask(.unix(admin), "POST", "/v1/users/alice/logout")
        #expect(response.status == 200, "\(response.bodyText)")
        try await eventually("alice's session is revoked") { !good.counts.revocations.isEmpty }
        let revoked = good.counts
        #expect(revoked.revocations.allSatisfy { $0.contains("token=\(revoked.current)") }, "\(revoked.revocations)")
        end.set()
        _ = try await second.process.terminate()
    }
}
