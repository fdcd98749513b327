import Foundation
import TestSupport

/// `lanyard-emulator` as a process of its own: it can be killed and started again like any other service.
final class EmulatorProcess: Sendable {
    static let app = "demo-abcde"
    static let email = "alice@example.com"

    let process: ServerProcess
    let endpoint: RawEndpoint
    /// Holds alice's password file.
    let folder: TemporaryFolder

    /// - Parameters:
    ///   - tokens: life of access tokens, such as `10s`.
    ///   - clock: its clock; nil: real time. It must run at the start.
    ///   - port: 0 takes a free one; another, the one of an emulator that has ended.
    static func start(
        tokens: String, under clock: TestClock? = nil, port: UInt16 = 0, arguments: [String] = []
    ) async throws -> EmulatorProcess {
        let folder = try TemporaryFolder()
        try folder.write("password", "correct-horse\n")
        let process = try ServerProcess(
            "lanyard-emulator",
            [
                "--listen", "127.0.0.1:\(port)", "--app", app, "--user", "\(email):\(folder.file("password"))",
                "--access-token-lifetime", tokens,
            ] + arguments, under: clock)
        let address = try await process.event("listening")["address"].string ?? ""
        return EmulatorProcess(process, try RawEndpoint(address), folder)
    }

    /// A short life of access tokens, `Sanitizer.stretch` times as long under a sanitizer: there a refresh can take more than a second.
    static func life(seconds: Int) -> String { "\(seconds * Sanitizer.stretch)s" }

    private init(_ process: ServerProcess, _ endpoint: RawEndpoint, _ folder: TemporaryFolder) {
        self.process = process
        self.endpoint = endpoint
        self.folder = folder
    }

    var passwordFile: String { folder.file("password") }

    /// A control call that must succeed.
    @discardableResult
    func control(_ method: String, _ path: String, _ body: String? = nil) async throws -> JSON {
        let response = try await RawClient.ask(endpoint, method, "/emulator" + path, body: body)
        guard (200..<300).contains(response.status) else {
            throw TestFailure("\(method) \(path): \(response.bodyText)")
        }
        return response.body.isEmpty ? .null : try response.json
    }

    /// One more account; it may exist already.
    func add(_ email: String, password: String) async throws {
        let body = try JSONEncoder().encode(["email": email, "password": password])
        let response = try await RawClient.ask(
            endpoint, "POST", "/emulator/users", body: String(decoding: body, as: UTF8.self))
        guard [201, 409].contains(response.status) else { throw TestFailure("\(email): \(response.bodyText)") }
    }

    /// Waits until no call is in progress: what a killed client sent has had its effect.
    func untilIdle() async throws {
        try await eventually("the emulator has answered every call") {
            let routes = try await control("GET", "/counts")["routes"].object
            return routes.values.allSatisfy { $0["in_flight"].int == 0 }
        }
    }

    /// Waits until every connection whose client has ended is closed, so that all that was sent on it has been read,
    /// and no call is in progress.
    func untilClosed() async throws {
        let local = String(format: ":%04X", Int(endpoint.port))
        try await eventually("the emulator has read what an ended client sent") {
            let table = try ProcFile.text("/proc/net/tcp").split(separator: "\n").dropFirst()
            return !table.contains { line in
                let words = line.split(separator: " ")
                // State 08 is CLOSE_WAIT (proc_net_tcp(5)).
                return words.count > 3 && words[1].hasSuffix(local) && words[3] == "08"
            }
        }
        try await untilIdle()
    }

    /// Calls of a route so far.
    func calls(_ route: String) async throws -> Int {
        try await control("GET", "/counts")["routes"][route]["calls"].int ?? 0
    }

    /// Access tokens given out so far, in order.
    func issued() async throws -> [JSON] { try await control("GET", "/tokens").array }
}
