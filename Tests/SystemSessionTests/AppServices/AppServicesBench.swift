import Foundation
import TestSupport

@testable import SystemTestSupport

/// The built emulator with every provider, and the client in Python that was written from the protocol's description alone
/// (`Tests/SystemSessionTests/AppServices/Peer`).
final class AppServicesBench: Sendable {
    /// The app that has all providers.
    static let app = "demo-abcde"
    /// Whether the admin API has calls about accounts, by its page.
    static let hasAccountCalls =
        (try? String(contentsOfFile: Products.root + "/docs/use/admin-users.md", encoding: .utf8).contains("api-keys"))
        ?? false
    private static let peer = Products.root + "/Tests/SystemSessionTests/AppServices/Peer/"

    let emulator: ServerProcess
    let endpoint: RawEndpoint
    /// Keys of the issuers, the emulator's configuration, and one secret for each kind of login.
    let folder: TemporaryFolder

    static func start() async throws -> AppServicesBench {
        let folder = try TemporaryFolder()
        _ = try await PythonProcess.run(["-B", peer + "emulator_setup.py", folder.path])
        let emulator = try ServerProcess(
            "lanyard-emulator", ["--listen", "127.0.0.1:0", "--seed", folder.file("seed.json")])
        let address = try await emulator.event("listening")["address"].string ?? ""
        return AppServicesBench(emulator, try RawEndpoint(address), folder)
    }

    private init(_ emulator: ServerProcess, _ endpoint: RawEndpoint, _ folder: TemporaryFolder) {
        self.emulator = emulator
        self.endpoint = endpoint
        self.folder = folder
    }

    /// Runs a script of the peer against the emulator; its lines, each `ok …` or `FAIL …`.
    ///
    /// - Throws: `TestFailure` if it ends otherwise than by its last check.
    func check(_ script: String, _ arguments: [String] = []) async throws -> [String] {
        let process = try ServerProcess(
            PythonProcess.path,
            ["-B", Self.peer + script, "--base", "http://\(endpoint)", "--folder", folder.path] + arguments)
        let exit = try await process.waitForExit()
        let lines = process.output.split(separator: "\n").map(String.init)
        let hasFailures = lines.contains { !$0.hasPrefix("ok ") }
        guard exit == .code(hasFailures ? 1 : 0) else {
            throw TestFailure("\(script) ended with \(exit):\n\(process.log)\n\(process.output)")
        }
        return lines
    }

    /// Starts the relay that checks every request on its way to the emulator.
    ///
    /// - Parameter plant: the deviation that it makes of the requests that it fits, before the check.
    func recorder(plant: String? = nil) async throws -> (process: ServerProcess, endpoint: RawEndpoint) {
        try await PythonProcess.serve(
            [
                "-B", Self.peer + "protocol_recorder.py", "--upstream", "http://\(endpoint)", "--app", Self.app,
            ] + (plant.map { ["--plant", $0] } ?? []))
    }

    /// What the relay has seen: `requests`, such as `POST /api/…`, and `deviations`, each with its request and its subject.
    static func report(of recorder: RawEndpoint) async throws -> JSON {
        try await RawClient.ask(recorder, "GET", "/recorder/report").json
    }
}
