import IdentityTestSupport
import LanyardEmulator
import TestSupport
import Testing

@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("App Services client against the emulator")
struct EmulatorIdentityTests {
    private static let email = "alice@example.com"
    private static let password = "correct horse"

    private func start() async throws -> Emulator {
        var options = EmulatorOptions()
        options.seed.users = [.init(email: Self.email, password: Self.password)]
        options.seed.keys = [.init(name: "robot", key: "key-of-robot")]
        return try await Emulator.start(options)
    }

    private func control(_ emulator: Emulator, _ call: String, _ body: String) async throws {
        let response = try await RawClient.ask(.tcp(emulator.port), "POST", "/emulator\(call)", body: body)
        #expect(response.status < 300, "\(call): \(response.bodyText)")
    }

    @Test("the three kinds log in, refresh and log out; after that the session is dead")
    func wholeLife() async throws {
        let emulator = try await start()
        let bench = try IdentityBench(baseURL: "http://\(emulator.address)")
        let logins: [UserSettings.Login] = [
            .anonymous,
            .emailPassword(email: Self.email, password: try bench.folder.write("password", Self.password + "\n")),
            .apiKey(try bench.folder.write("key", "key-of-robot")),
        ]
        var users: Set<String?> = []
        for login in logins {
            let grant = try await bench.login(login).get()
            users.insert(grant.userID)
            #expect(grant.lifetime == .seconds(1800) && grant.refreshTokenExpiry != nil)
            let token = try #require(Tokens.text(grant.refreshToken))
            let refreshed = try await bench.refresh(token).get()
            #expect(refreshed.accessToken != grant.accessToken && refreshed.lifetime == .seconds(1800))
            try await bench.revoke(token).get()
            #expect(await bench.refresh(token).failure?.verdict == .sessionDead)
            #expect(await bench.revoke(token).failure?.verdict == .sessionDead)
        }
        #expect(users.count == 3 && !users.contains(nil))
        await emulator.stop()
    }

    @Test("wrong credentials are refused with the service's code")
    func refused() async throws {
        let emulator = try await start()
        let bench = try IdentityBench(baseURL: "http://\(emulator.address)")
        let file = try bench.folder.write("wrong", "wrong horse")
        let wrong = await bench.login(.emailPassword(email: Self.email, password: file)).failure
        #expect(wrong?.verdict == .credentialRefused && wrong?.code == "InvalidPassword")
        let key = await bench.login(.apiKey(file)).failure
        #expect(key?.verdict == .credentialRefused && key?.code == "AuthError")
        try await control(emulator, "/users/disable", #"{"user":"\#(Self.email)"}"#)
        let right = try bench.folder.write("right", Self.password)
        let disabled = await bench.login(.emailPassword(email: Self.email, password: right)).failure
        #expect(disabled?.verdict == .credentialRefused && disabled?.code == "UserDisabled")
        await emulator.stop()
    }

    @Test("revoked sessions, planned faults and another app id get their verdicts")
    func verdicts() async throws {
        let emulator = try await start()
        let bench = try IdentityBench(baseURL: "http://\(emulator.address)")
        let grant = try await bench.login().get()
        let token = try #require(Tokens.text(grant.refreshToken))
        let faults: [(String, IdentityError.Verdict)] = [
            ("server_error", .transient(retryAfter: nil)), ("html", .transient(retryAfter: nil)),
            ("malformed", .transient(retryAfter: nil)), ("gone", .gone),
            ("unavailable", .transient(retryAfter: .seconds(7))),
            ("too_many_requests", .transient(retryAfter: .seconds(7))),
            ("empty_unauthorized", .sessionDead), ("unknown_app", .unknownApp),
        ]
        for (fault, verdict) in faults {
            try await control(
                emulator, "/faults", #"{"route":"refresh","fault":"\#(fault)","times":1,"retry_after":7}"#)
            #expect(await bench.refresh(token).failure?.verdict == verdict, "\(fault)")
        }
        _ = try await bench.refresh(token).get()
        try await control(emulator, "/sessions/revoke", "{}")
        let dead = await bench.refresh(token).failure
        #expect(dead?.verdict == .sessionDead && dead?.code == "InvalidSession")
        await emulator.stop()
    }
}
