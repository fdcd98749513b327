import Foundation
import TestSupport

@testable import SystemTestSupport

/// glewlwyd, an OpenID provider in C, whose refresh tokens work once (deploy/peer-servers gets it).
struct GlewlwydServer {
    private static let root = Products.root + "/.build/peer-servers/glewlwyd"
    /// Whether its packages could be fetched.
    static let isThere = FileManager.default.fileExists(atPath: root + "/ready") && PythonProcess.isInstalled

    let process: ServerProcess
    let endpoint: RawEndpoint
    private let folder: TemporaryFolder

    /// - Parameters:
    ///   - lifetime: of access tokens, in seconds.
    ///   - isPushed: an authorization request must be pushed (RFC 9126).
    static func start(lifetime: Int = 20, isPushed: Bool = false) async throws -> GlewlwydServer {
        let folder = try TemporaryFolder()
        let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/glewlwyd_server.py"
        let (process, endpoint) = try await PythonProcess.serve(
            ["-B", script, "--root", root + "/root", "--work", folder.path, "--lifetime", String(lifetime)]
                + (isPushed ? ["--pushed"] : []))
        return GlewlwydServer(process: process, endpoint: endpoint, folder: folder)
    }

    var issuer: String { "http://\(endpoint)/api/oidc" }
    /// Responds with the subject of a valid access token, else with 401.
    var resource: String { "\(issuer)/userinfo" }

    func stop() async throws { try await process.terminate() }
}
