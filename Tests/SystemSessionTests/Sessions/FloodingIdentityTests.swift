import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// Lanyard with alice at a healthy identity service and mallory at one that floods.
final class FloodBench: Sendable {
    let emulator: EmulatorProcess
    let hostile: FloodingService?
    let lanyard: LanyardProcess
    let admin: RawEndpoint
    private let folder: TemporaryFolder

    /// Starts it and waits until alice is logged in.
    ///
    /// - Parameters:
    ///   - flood: of mallory's identity; nil: there is no mallory.
    ///   - isTLS: mallory's identity speaks https.
    ///   - isStepped: the flood waits for the test.
    static func start(
        _ flood: FloodingService.Flood?, isTLS: Bool, isStepped: Bool = false
    ) async throws -> FloodBench {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let folder = try TemporaryFolder()
        let authority = TestAuthority()
        let caFile = try folder.write("ca.pem", authority.pem)
        let issued = isTLS ? authority.issue() : nil
        let hostile = try flood.map { try FloodingService($0, isStepped: isStepped, by: issued) }
        let path = folder.file("admin.sock")
        var (identity, user) = ("", "")
        if let hostile {
            let trust = isTLS ? ", tls: {ca_file: \(caFile)}" : ""
            identity = "\n  hostile: {app_services: {app_id: demo-abcde, base_url: \"\(hostile.origin)\"}\(trust)}"
            user = "\n  mallory: {identity: hostile}"
        }
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}\(identity)
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}\(user)
            active_user: alice
            routes: [{name: all, upstream: "http://\(emulator.endpoint)"}]
            store: {memory: true}
            """, admin: "{address: \"unix:\(path)\"}")
        let bench = FloodBench(emulator, hostile, lanyard, .unix(path), folder)
        try await eventually("alice is logged in") {
            try await bench.call("GET", "/users/alice").json["session"].string == "valid"
        }
        return bench
    }

    private init(
        _ emulator: EmulatorProcess, _ hostile: FloodingService?, _ lanyard: LanyardProcess, _ admin: RawEndpoint,
        _ folder: TemporaryFolder
    ) {
        (self.emulator, self.hostile, self.lanyard, self.admin, self.folder) = (
            emulator, hostile, lanyard, admin, folder
        )
    }

    func call(_ method: String, _ path: String, _ body: String? = nil) async throws -> RawMessage {
        try await RawClient.ask(admin, method, "/v1" + path, body: body)
    }

    /// Logs mallory in, which meets the flood. Returns the response of the admin API.
    func provoke() async throws -> RawMessage {
        try await call("POST", "/users/mallory/login", #"{"credential":{"anonymous":{}},"activate":false}"#)
    }

    /// A refresh and a request of alice. Returns what was no success.
    func look() async throws -> [String] {
        let refresh = try await call("POST", "/users/alice/refresh")
        let response = try await lanyard.get("/protected/")
        return [refresh, response].filter { $0.status != 200 }.map { "\($0.status) \($0.bodyText)" }
    }
}

/// The user of another identity beside one whose service floods. `LongFloodingIdentityTests` does it for a minute.
@Suite struct FloodingIdentityTests {
    @Test(
        "beside a service that floods, the refreshes and requests of another identity's user succeed, and the flood is ended",
        arguments: [(FloodingService.Flood.keyUpdates, true), (.chunkExtension, false)])
    func beside(_ flood: FloodingService.Flood, _ isTLS: Bool) async throws {
        let bench = try await FloodBench.start(flood, isTLS: isTLS, isStepped: true)
        let hostile = try #require(bench.hostile)
        async let provoked = bench.provoke()
        try await eventually("the flood has begun") { hostile.begun > 0 }
        for _ in 0..<3 {
            let sent = hostile.sentBytes
            hostile.step()
            #expect(try await bench.look() == [])
            hostile.step()
            try await eventually("the flood continues") { hostile.sentBytes > sent }
            // It was open all the time: none has begun since.
            #expect(hostile.begun == 1 && hostile.open == 1)
        }
        hostile.release()
        let response = try await provoked
        #expect(response.status == 503 && response.bodyText.contains("too large"), "\(response.bodyText)")
        try await eventually("the connection has ended") { hostile.open == 0 }
    }
}
