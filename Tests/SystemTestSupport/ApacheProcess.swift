import Foundation
import Glibc
import LanyardFoundations
import TestSupport

/// Apache in the foreground, with TLS. It listens at a loopback address that belongs to this process of tests alone,
/// because it cannot choose a free port.
final class ApacheProcess: Sendable {
    static let isInstalled =
        access("/usr/sbin/apache2", X_OK) == 0 && access("/usr/lib/apache2/modules/mod_ssl.so", R_OK) == 0

    let process: ServerProcess
    /// In it are `ca.pem`, `leaf.pem`, `leaf.key`, `error.log`, and the files that are served, in `www`.
    let folder: TemporaryFolder
    let url: String

    private static let numbers = Guarded<UInt8>(0)

    /// Starts it and waits until it listens. It serves the files `/open` and `/late/file`, with the client certificate's serial number as
    /// `X-Serial`.
    ///
    /// - Parameters:
    ///   - authority: has issued its certificate, which is for `localhost`, and those of clients.
    ///   - server: further lines of the configuration.
    static func start(_ authority: TestAuthority, _ server: String) async throws -> ApacheProcess {
        let folder = try TemporaryFolder()
        let issued = authority.issue()
        try folder.write("ca.pem", authority.pem)
        try folder.write("leaf.pem", issued.certificate)
        try folder.write("leaf.key", issued.key)
        for path in [folder.path, folder.file("www"), folder.file("www/late")] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            // Its workers are another user's.
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
        }
        try folder.write("www/open", "open", mode: 0o644)
        try folder.write("www/late/file", "late", mode: 0o644)
        let number = numbers.withLock { number in
            number += 1
            return number
        }
        let address = "127.\(getpid() >> 8 & 0xff).\(getpid() & 0xff).\(number)"
        let modules = ["mpm_event", "ssl", "authz_core", "headers", "socache_shmcb", "unixd"]
            .filter { access("/usr/lib/apache2/modules/mod_\($0).so", R_OK) == 0 }
            .map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }.joined(separator: "\n")
        let configuration = try folder.write(
            "apache.conf",
            """
            ServerRoot \(folder.path)
            \(modules)
            ServerName localhost
            PidFile \(folder.file("apache.pid"))
            ErrorLog \(folder.file("error.log"))
            LogLevel info
            \(getuid() == 0 ? "User www-data\nGroup www-data" : "")
            Listen \(address):4433
            StartServers 1
            ServerLimit 1
            ThreadsPerChild 4
            MaxRequestWorkers 4
            DocumentRoot \(folder.file("www"))
            SSLEngine on
            SSLCertificateFile \(folder.file("leaf.pem"))
            SSLCertificateKeyFile \(folder.file("leaf.key"))
            SSLCACertificateFile \(folder.file("ca.pem"))
            SSLSessionCache none
            Header always set X-Serial "%{SSL_CLIENT_M_SERIAL}s"
            \(server)
            """)
        let process = try ServerProcess("/usr/sbin/apache2", ["-f", configuration, "-DFOREGROUND"])
        let started = ApacheProcess(process, folder, "https://\(address):4433")
        do {
            try await eventually("Apache listens") {
                guard process.exit == nil else { throw TestFailure("Apache ended: \(process.log)") }
                return (try? String(contentsOfFile: folder.file("error.log"), encoding: .utf8))?
                    .contains("resuming normal operations") ?? false
            }
        } catch {
            throw TestFailure("\(error); it said:\n\(process.log)\n\(started.errorLog)")
        }
        return started
    }

    private init(_ process: ServerProcess, _ folder: TemporaryFolder, _ url: String) {
        self.process = process
        self.folder = folder
        self.url = url
    }

    /// In order, because its worker outlives it otherwise.
    deinit {
        process.signal(SIGTERM)
        try? blockUntil("Apache ends") { process.exit != nil }
    }

    var errorLog: String { (try? String(contentsOfFile: folder.file("error.log"), encoding: .utf8)) ?? "" }
}
