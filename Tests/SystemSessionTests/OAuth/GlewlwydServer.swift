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
    private let scheme: String

    /// - Parameters:
    ///   - lifetime: of access tokens, in seconds.
    ///   - deviceLifetime: of device codes, in seconds.
    ///   - isPushed: an authorization request must be pushed (RFC 9126).
    ///   - tls: a folder with ca.pem, server.pem and server.key; the client shows who it is by a certificate (RFC 8705).
    static func start(
        lifetime: Int = 20, deviceLifetime: Int = 600, isPushed: Bool = false, tls: TemporaryFolder? = nil
    ) async throws -> GlewlwydServer {
        let folder = try TemporaryFolder()
        let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/glewlwyd_server.py"
        let (process, endpoint) = try await PythonProcess.serve(
            ["-B", script, "--root", root + "/root", "--work", folder.path, "--lifetime", String(lifetime)]
                + ["--device-lifetime", String(deviceLifetime)]
                + (isPushed ? ["--pushed"] : []) + (tls.map { ["--tls", $0.path] } ?? []))
        return GlewlwydServer(
            process: process, endpoint: endpoint, folder: folder, scheme: tls == nil ? "http" : "https")
    }

    var issuer: String { "\(scheme)://\(endpoint)/api/oidc" }
    /// Responds with the subject of a valid access token, else with 401.
    var resource: String { "\(issuer)/userinfo" }

    func stop() async throws { try await process.terminate() }
}
