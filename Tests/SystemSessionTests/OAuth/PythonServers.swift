import Foundation
import TestSupport

@testable import SystemTestSupport

/// An identity server from PyPI in its own environment (deploy/peer-servers gets it), started by a script of Peer.
struct PythonServer {
    private static let root = Products.root + "/.build/peer-servers/"

    let process: ServerProcess
    let endpoint: RawEndpoint
    /// What the script has written for the test.
    let folder: TemporaryFolder

    /// Whether its packages could be fetched.
    static func isThere(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: root + name + "/ready") && PythonProcess.isInstalled
    }

    /// - Parameter options: of the script.
    static func start(_ name: String, _ options: [String] = []) async throws -> PythonServer {
        let folder = try TemporaryFolder()
        let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/\(name)_server.py"
        let (process, endpoint) = try await PythonProcess.serve(
            ["-B", script, "--python", root + name + "/bin/python", "--work", folder.path] + options)
        return PythonServer(process: process, endpoint: endpoint, folder: folder)
    }

    var base: String { "http://\(endpoint)" }

    func text(_ name: String) throws -> String { try String(contentsOfFile: folder.file(name), encoding: .utf8) }

    func stop() async throws { try await process.terminate() }
}
