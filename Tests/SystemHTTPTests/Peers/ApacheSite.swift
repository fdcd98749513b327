import Foundation
import Glibc
import TestSupport

@testable import SystemTestSupport

/// Lanyard in front of an Apache that serves only requests with Lanyard's token, for clients that know no token.
final class ApacheSite: Sendable {
    let lanyard: LanyardProcess
    /// Its `www` is what `/` shows.
    let apache: ApacheProcess
    /// Of the clients: their home and what they make.
    let folder: TemporaryFolder

    /// - Parameter server: further lines of Apache's configuration.
    static func start(_ server: String = "") async throws -> ApacheSite {
        let apache = try await ApacheProcess.start(
            TestAuthority("Site"),
            """
            LoadModule setenvif_module /usr/lib/apache2/modules/mod_setenvif.so
            CustomLog access.log "%r %>s"
            SetEnvIf Authorization "^Bearer stream-token$" has_token
            <Location />
            Require env has_token
            </Location>
            \(server)
            """)
        return try ApacheSite(await lanyard(before: apache), apache)
    }

    /// Another Lanyard in front of the same Apache.
    ///
    /// - Parameters:
    ///   - path: of Apache, that the route's paths are mapped to.
    ///   - route: further keys of the route.
    func another(path: String, route: String) async throws -> LanyardProcess {
        try await Self.lanyard(before: apache, path: path, route: ", \(route)")
    }

    private static func lanyard(
        before apache: ApacheProcess, path: String = "", route: String = ""
    ) async throws -> LanyardProcess {
        let tls = "tls: {ca_file: \(apache.folder.file("ca.pem")), server_name: localhost}"
        return try await LanyardProcess.start(before: apache.url + path, route: tls + route)
    }

    private init(_ lanyard: LanyardProcess, _ apache: ApacheProcess) throws {
        (self.lanyard, self.apache) = (lanyard, apache)
        folder = try TemporaryFolder()
    }

    /// Bytes that cannot be compressed, the same each time.
    static func noise(_ count: Int) -> Data {
        var generator = SeededGenerator(UInt64(count))
        return Data(generator.bytes(count))
    }

    var url: String { "http://\(lanyard.data)" }

    /// Its requests with the statuses of their responses.
    var accessLog: String {
        (try? String(contentsOfFile: apache.folder.file("access.log"), encoding: .utf8)) ?? ""
    }

    /// Runs a client to its end, which must be a success.
    ///
    /// - Returns: standard output.
    @discardableResult
    func run(_ program: String, _ arguments: [String], environment: [String: String] = [:]) async throws -> String {
        let own = ["HOME": folder.path, "LANG": "C"].merging(environment) { $1 }
        let process = try ServerProcess(program, arguments, environment: own)
        guard try await process.waitForExit() == .code(0) else {
            throw TestFailure(
                "\(program) \(arguments.joined(separator: " ")) failed:\n\(process.output)\(process.log)\n"
                    + "\(accessLog)\(apache.errorLog)")
        }
        return process.output
    }
}
