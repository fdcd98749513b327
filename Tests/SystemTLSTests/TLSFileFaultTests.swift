import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Every file of TLS in every bad state, of listeners, upstreams and identities, as `lanyard check` judges it; the start does the same.
@Suite struct TLSFileFaultTests {
    /// Whose files they are.
    enum Side: CaseIterable { case listener, upstream, identity }

    private let folder: TemporaryFolder
    private static let authority = TestAuthority("Files")

    init() throws { folder = try TemporaryFolder() }

    /// Checks a configuration with `cert.pem`, `key.pem` and `ca.pem` on one side.
    private func check(_ side: Side, as account: ServerProcess.UnixUser = .same) async throws -> (
        exit: ServerProcess.Exit, errors: String
    ) {
        let authorities = side == .listener ? "client_ca_file" : "ca_file"
        let tls = "tls: {certificate_file: cert.pem, key_file: key.pem, \(authorities): ca.pem}"
        let listener = side == .listener ? ", \(tls)" : ""
        let route = side == .upstream ? ", \(tls)" : ""
        let identity = side == .identity ? ", \(tls)" : ""
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"\(listener)}]
            health: off
            admin: off
            identities:
              fixed: {static: {token_file: token}}
              demo: {app_services: {app_id: demo-abcde, base_url: "https://127.0.0.1:9"}\(identity)}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "https://127.0.0.1:9"\(route)}]

            """, mode: 0o644)
        let process = try ServerProcess("lanyard", ["check", "--config", path], as: account)
        return (try await process.waitForExit(), process.log)
    }

    private func write(_ issued: TestAuthority.Issued, authority: String = authority.pem) throws {
        try folder.write("token", "t")
        try folder.write("cert.pem", issued.certificate)
        try folder.write("key.pem", issued.key)
        try folder.write("ca.pem", authority)
    }

    @Test(
        "a file that is empty, half-written, swapped, foreign, locked, a folder or gone: exit 78, and it is named",
        arguments: Side.allCases)
    func files(_ side: Side) async throws {
        let (own, other) = (Self.authority.issue(), Self.authority.issue())
        let half = { (text: String) in String(text.prefix(text.utf8.count / 2)) }
        let cases: [(file: String, text: String?, words: String)] = [
            ("cert.pem", "", "no certificate"), ("cert.pem", half(own.certificate), "damaged"),
            ("cert.pem", own.key, "no certificate"),
            ("cert.pem", "hello\n", "no certificate"), ("key.pem", other.key, "does not belong"),
            ("key.pem", "", "empty"),
            ("key.pem", half(own.key), "damaged"), ("key.pem", own.certificate, "no private key"),
            ("key.pem", Self.authority.issue(password: "hunter2").key, "password"), ("ca.pem", "", "certificate"),
            ("ca.pem", half(Self.authority.pem), "certificate"), ("ca.pem", own.key, "certificate"),
            ("cert.pem", nil, "does not exist"),
            ("key.pem", nil, "does not exist"), ("ca.pem", nil, "does not exist"),
        ]
        for (file, text, words) in cases {
            try write(own)
            if let text { try folder.write(file, text) } else { unlink(folder.file(file)) }
            let (exit, errors) = try await check(side)
            #expect(exit == .code(78), "\(file): \(words)\n\(errors)")
            #expect(errors.contains(folder.file(file)) && errors.contains(words), "\(file): \(errors)")
            #expect(!errors.contains("hunter2") && !errors.contains("PRIVATE KEY-----"), "\(errors)")
            try? FileManager.default.removeItem(atPath: folder.file(file))
            try FileManager.default.createDirectory(atPath: folder.file(file), withIntermediateDirectories: false)
            let asFolder = try await check(side)
            #expect(asFolder.exit == .code(78) && asFolder.errors.contains(folder.file(file)), "\(asFolder.errors)")
            try FileManager.default.removeItem(atPath: folder.file(file))
        }
        try write(own)
        #expect(try await check(side).exit == .code(0))
    }

    @Test(
        "a file that this Unix user cannot read: exit 78, and it is named", .enabled("needs root") { getuid() == 0 },
        arguments: Side.allCases)
    func unreadable(_ side: Side) async throws {
        chmod(folder.path, 0o755)
        for file in ["cert.pem", "key.pem", "ca.pem"] {
            try write(Self.authority.issue())
            for name in ["cert.pem", "key.pem", "ca.pem", "token"] { chmod(folder.file(name), 0o644) }
            chmod(folder.file(file), 0o600)
            let (exit, errors) = try await check(side, as: .nobody)
            #expect(exit == .code(78), "\(errors)")
            #expect(errors.contains(folder.file(file)) && errors.contains("ermission denied"), "\(errors)")
        }
    }
}
