import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Lanyard with three shards, four users of three identities, and a lying upstream for each of them.
///
/// Files that `HangingFiles` holds up, an emulator behind a gate that makes the faults of a network, tokens of 3 s.
final class SoakBench: Sendable {
    static let password = "correct-horse"
    /// Users whose tokens the emulator gives out.
    static let members = ["alice", "carol"]
    static let routes = members + ["fixed", "liar"]

    let lanyard: LanyardProcess
    let emulator: EmulatorProcess
    /// Stands between Lanyard and the emulator.
    let gate: FaultGate
    let liar: LyingIdentity
    let upstreams: [LyingUpstream]
    let admin: RawEndpoint
    let folder: TemporaryFolder
    let tokens: SoakTokens
    let findings: SoakFindings
    /// What the static token's file has held so far, whole.
    let fixedTokens: KnownTokens

    static func start() async throws -> SoakBench {
        let findings = SoakFindings()
        let tokens = SoakTokens()
        let fixedTokens = KnownTokens()
        fixedTokens.add(firstFixedToken)
        let emulator = try await EmulatorProcess.start(tokens: "3s")
        try await emulator.add("carol@example.com", password: password)
        let gate = try FaultGate(before: emulator.endpoint)
        let liar = try LyingIdentity(seed: 1, findings: findings)
        let upstreams = try routes.enumerated().map { index, name in
            try LyingUpstream(name, seed: UInt64(10 + index), findings: findings) { token, arrival in
                switch name {
                case "fixed": fixedTokens.contains(token) ? nil : "never in the file: \(token.count) bytes"
                case "liar": liar.knows(token) ? nil : "never given out: \(token.prefix(20))"
                default: tokens.judge(token, for: name, arrivedAt: arrival)
                }
            }
        }
        let folder = try TemporaryFolder()
        for name in members { try folder.write(name, password) }
        try folder.write("fixed", firstFixedToken)
        try folder.write("admin", adminToken(0))
        try folder.write("store.key", String(repeating: "k", count: 32))
        let lanyard = try await LanyardProcess.start(
            configuration(emulator: gate.endpoint, liar: liar.endpoint, upstreams: upstreams, folder),
            admin: "{address: \"127.0.0.1:0\", token_file: \(folder.file("admin"))}",
            launcher: HangingFiles.launcher())
        // The emulator makes an account with its first login.
        try await eventually("both have logged in") {
            // An account that has not logged in has no user id.
            for user in try await emulator.control("GET", "/users").array where user["user_id"].string != nil {
                let name = (user["name"].string ?? "").prefix { $0 != "@" }
                tokens.expect(String(name), toBe: user["user_id"].string ?? "none")
            }
            return members.allSatisfy(tokens.knows)
        }
        let admin = try await lanyard.process.event("listening") { $0["listener"].string == "admin" }
        return SoakBench(
            lanyard, emulator, gate, liar, upstreams, try RawEndpoint(admin["address"].string ?? ""), folder, tokens,
            findings, fixedTokens)
    }

    static let firstFixedToken = "fixed-token-0-" + String(repeating: "0", count: 200)
    /// As the file holds it; 32 characters at least.
    static func adminToken(_ number: Int) -> String { "admin-token-\(number)-" + String(repeating: "a", count: 40) }

    private static func configuration(
        emulator: RawEndpoint, liar: RawEndpoint, upstreams: [LyingUpstream], _ folder: TemporaryFolder
    ) -> String {
        let users = members.map { name in
            "  \(name): {identity: demo, login: {email_password: {email: \(name)@example.com, password_file: \(folder.file(name))}}}"
        }
        // Short limits: what a lie holds up ends before the storm does.
        let timeouts = "timeouts: {connect: 2s, response_header: 2s, request_idle: 3s, response_idle: 2s, write: 3s}"
        let routes = zip(Self.routes, upstreams).map { name, upstream in
            """
              - {name: \(name), match: {path: /\(name)}, user: \(name), upstream: "http://\(upstream.server.endpoint)", \(timeouts)}
            """
        }
        return """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator)"}}
              liar: {app_services: {app_id: \(LyingIdentity.app), base_url: "http://\(liar)"}}
              fixed: {static: {token_file: \(folder.file("fixed"))}}
            users:
            \(users.joined(separator: "\n"))
              fixed: {identity: fixed}
              liar: {identity: liar, login: {email_password: {email: liar@example.com, password_file: \(folder.file("alice"))}}}
            routes:
            \(routes.joined(separator: "\n"))
            store: {path: \(folder.file("sessions")), key_file: \(folder.file("store.key"))}
            limits: {header_timeout: 2s, idle_timeout: 5s}
            refresh: {wait_max: 2s, cooldown: 1s, per_hour_max: 10000}
            shutdown: {drain_max: 5s}
            shards: 3
            """
    }

    private init(
        _ lanyard: LanyardProcess, _ emulator: EmulatorProcess, _ gate: FaultGate, _ liar: LyingIdentity,
        _ upstreams: [LyingUpstream], _ admin: RawEndpoint, _ folder: TemporaryFolder, _ tokens: SoakTokens,
        _ findings: SoakFindings, _ fixedTokens: KnownTokens
    ) {
        self.lanyard = lanyard
        self.emulator = emulator
        self.gate = gate
        self.liar = liar
        self.upstreams = upstreams
        self.admin = admin
        self.folder = folder
        self.tokens = tokens
        self.findings = findings
        self.fixedTokens = fixedTokens
    }

    /// Descriptors that the process has open.
    var descriptors: Set<Int> {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(lanyard.process.pid)/fd")) ?? []
        return Set(names.compactMap { Int($0) })
    }

    /// A limit that leaves as good as nothing to open: the lowest free number is beyond it.
    ///
    /// Not so low that it cuts off the reserve of the health listener, which consists of eventfds. No limit does that which was there from
    /// the start; one that comes later does when a number below the reserve happens to be free.
    func tightLimit() throws -> Int {
        let used = descriptors
        let pid = lanyard.process.pid
        let events = used.filter { DescriptorTable.target(of: $0, in: pid)?.contains("eventfd") == true }
        let free = try #require((0...used.count).first { !used.contains($0) })
        return max(free, try #require(events.max(), "its descriptors cannot be seen") + 1)
    }

    /// The sum of a metric over all its labels but those that do not fit.
    func metric(_ name: String, where fits: ([String: String]) -> Bool = { _ in true }) async throws -> Double {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics")
        let samples = try ExpositionReader(page.body, openMetrics: false).samples
        return samples.filter { $0.name == name && fits($0.labels) }.reduce(0) { $0 + $1.value }
    }

    /// What was in progress has ended, and every user that can be logged in is: everything is at rest.
    func untilCalm() async throws {
        do {
            try await eventually("no request and no client is left") {
                let parked = try await metric("lanyard_parked_requests")
                let clients = try await metric("lanyard_client_connections")
                return parked == 0 && clients == 0
            }
            for user in Self.members + ["fixed"] {
                try await eventually("\(user) is ready") {
                    // A request shortens the back-off of a session whose service cannot be reached.
                    if try await RawClient.ask(lanyard.health, "GET", "/readyz/\(user)").status == 200 { return true }
                    _ = try await lanyard.get("/\(user)/calm")
                    return false
                }
                expect200(try await lanyard.get("/\(user)/calm"), user)
            }
        } catch {
            throw TestFailure("\(error); all that it said is in \(try keepLog())")
        }
    }

    /// Writes all that Lanyard has said to a file that outlives the test; returns its path.
    @discardableResult
    func keepLog() throws -> String {
        let folder = Products.root + "/.build/test-logs"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(lanyard.process.log.utf8).write(to: URL(fileURLWithPath: folder + "/soak-lanyard.log"))
        return folder + "/soak-lanyard.log"
    }

    private func expect200(_ response: RawMessage, _ user: String) {
        if response.status != 200 {
            findings.fault("at rest \(user) is answered \(response.status): \(response.bodyText)")
        }
    }
}
