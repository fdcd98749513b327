import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Secret files as editors and other programs write them: what they add is skipped, or named by `check` and the log.
@Suite struct SecretFileTextTests {
    private static let key = "k3yk3yk3yk3yk3yk3yk3yk3yk3yk3yk3"
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// A file, such as in another encoding.
    private func write(_ name: String, _ text: String, _ encoding: String.Encoding = .utf8) throws -> String {
        let path = folder.file(name)
        try #require(text.data(using: encoding)).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        return path
    }

    private func configuration(_ emulator: EmulatorProcess, login: String) throws -> String {
        try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin: off
            identities: {demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}}
            users: {alice: {identity: demo, login: {\(login)}}}
            routes: [{name: all, upstream: "http://\(emulator.endpoint)"}]

            """)
    }

    /// The log of a run until its login has succeeded or failed, and the end of that.
    private func login(_ path: String) async throws -> (log: String, event: String) {
        let lanyard = try ServerProcess("lanyard", ["run", "--config", path])
        var event: String?
        try await eventually("the login has come to an end") {
            event = lanyard.lines.compactMap(\.event).first {
                ["session.login.succeeded", "session.credential.refused", "session.login.failed"].contains($0)
            }
            return event != nil
        }
        try await lanyard.terminate()
        return (lanyard.log, event ?? "")
    }

    @Test(
        "a password with a byte order mark and one line end logs in; check and the log tell of the mark",
        arguments: [
            "correct-horse\r\n", "\u{FEFF}correct-horse", "\u{FEFF}correct-horse\r\n", "\u{FEFF}correct-horse\n",
        ])
    func skipped(_ written: String) async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let password = try write("password", written)
        let path = try configuration(
            emulator, login: "email_password: {email: \(EmulatorProcess.email), password_file: \(password)}")
        let check = try await CommandRun(["check", "--config", path])
        let hasMark = written.hasPrefix("\u{FEFF}")
        #expect(check.exit == .code(0))
        let finding = "\(password) begins with a byte order mark, which is skipped"
        #expect(check.errors.contains { $0.contains(finding) } == hasMark)
        let outcome = try await login(path)
        #expect(outcome.event == "session.login.succeeded", "\(outcome.log)")
        #expect(outcome.log.contains("identity.secret_file_text") == hasMark)
        #expect(!outcome.log.contains("correct-horse"))
    }

    @Test(
        "what may belong to a password is sent, and named by check, by the log and with the refusal",
        arguments: [
            ("correct-horse \n", "ends with a blank"), ("correct-horse\n\n", "ends with an empty line"),
            ("\tcorrect-horse", "begins with a blank"), ("\"correct-horse\"\n", "is in quotation marks"),
            ("correct-horse\u{200B}\n", "has an invisible character (U+200B) at byte 13"),
            ("correct-horse\0", "has a NUL byte at byte 13"),
        ])
    func named(_ written: String, _ finding: String) async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let password = try write("password", written)
        let path = try configuration(
            emulator, login: "email_password: {email: \(EmulatorProcess.email), password_file: \(password)}")
        let check = try await CommandRun(["check", "--config", path])
        #expect(check.exit == .code(0))
        #expect(check.errors.contains { $0.contains("\(password) \(finding)") }, "\(check.errors)")
        #expect(try await CommandRun(["check", "--strict", "--config", path]).exit == .code(78))
        let outcome = try await login(path)
        #expect(outcome.event == "session.credential.refused", "\(outcome.log)")
        let lines = outcome.log.split(separator: "\n")
        let told = ["identity.secret_file_text": finding, "session.credential.refused": "the file \(finding)"]
        for (event, words) in told {
            #expect(lines.contains { $0.contains(event) && $0.contains(words) }, "\(outcome.log)")
        }
        #expect(!(outcome.log + check.errors.joined()).contains("correct-horse"))
    }

    @Test(
        "a password that cannot be sent is named by check and by the log",
        arguments: [
            (
                "caf\u{E9}\n", String.Encoding.isoLatin1, "is not UTF-8 text at byte 3",
                "is not UTF-8 text; save it as UTF-8"
            ),
            ("\n", .utf8, "holds no secret, but a line end or blanks", "is empty"),
        ])
    func unfit(_ written: String, _ encoding: String.Encoding, _ finding: String, _ refusal: String) async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let password = try write("password", written, encoding)
        let path = try configuration(
            emulator, login: "email_password: {email: \(EmulatorProcess.email), password_file: \(password)}")
        let check = try await CommandRun(["check", "--config", path])
        #expect(check.errors.contains { $0.contains("\(password) \(finding)") }, "\(check.errors)")
        #expect(try await CommandRun(["check", "--strict", "--config", path]).exit == .code(78))
        let outcome = try await login(path)
        #expect(outcome.event == "session.credential.refused", "\(outcome.log)")
        #expect(outcome.log.contains("\(password) \(refusal)"), "\(outcome.log)")
        #expect(try await emulator.calls("login") == 0)
    }

    @Test("a password in UTF-16 is not sent: check and the log name the encoding")
    func wide() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let password = try write("password", "\u{FEFF}correct-horse\r\n", .utf16LittleEndian)
        let path = try configuration(
            emulator, login: "email_password: {email: \(EmulatorProcess.email), password_file: \(password)}")
        let check = try await CommandRun(["check", "--config", path])
        #expect(check.errors.contains { $0.contains("\(password) cannot be used; it is text in UTF-16") })
        let outcome = try await login(path)
        #expect(outcome.event == "session.credential.refused", "\(outcome.log)")
        #expect(outcome.log.contains("\(password) is text in UTF-16"), "\(outcome.log)")
        #expect(try await emulator.calls("login") == 0)
    }

    @Test(
        "an API key logs in whatever stands around it",
        arguments: [
            "KEY\n", "\u{FEFF}KEY\r\n", "KEY\r\n\r\n", "  KEY \t\n", "KEY\0", "\u{FEFF}KEY\u{1A}",
        ])
    func apiKey(_ form: String) async throws {
        let written = form.replacing("KEY", with: Self.key)
        let plain = try write("plain", Self.key)
        let emulator = try await EmulatorProcess.start(tokens: "1800s", arguments: ["--api-key", "ci:\(plain)"])
        let path = try configuration(emulator, login: "api_key: {key_file: \(try write("key", written))}")
        #expect(try await CommandRun(["check", "--strict", "--config", path]).exit == .code(0))
        let outcome = try await login(path)
        #expect(outcome.event == "session.login.succeeded", "\(outcome.log)")
        #expect(!outcome.log.contains("identity.secret_file_text"))
    }

    @Test(
        "a command takes secrets in the same forms, of files and of standard input",
        arguments: ["\u{FEFF}correct-horse\r\n", "correct-horse\r\n"])
    func command(_ written: String) async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let file = try write("password", written.replacing("correct-horse", with: UsersBench.password))
        let flags = ["login", "bob", "--identity", "demo", "--email", "bob@example.com", "--admin", "\(bench.admin)"]
        let run = try await CommandRun(flags + ["--password-file", file])
        #expect(run.exit == .code(0), "\(run.errors)")
    }

    @Test("what stands around a static token, a capability or an admin token is skipped, by commands as well")
    func tokens() async throws {
        let upstream = try RawServer()
        let secret = String(repeating: "s3cret", count: 6)
        let token = try write("token", "\u{FEFF}a-token\r\n\r\n")
        let capability = try write("capability", "\u{FEFF}\(secret)\r\n\n")
        let admin = try write("admin", "\u{FEFF}\(secret) \r\n")
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0", capability_file: \(capability)}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "127.0.0.1:0", token_file: \(admin)}
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]

            """)
        #expect(try await CommandRun(["check", "--strict", "--config", path]).exit == .code(0))
        let lanyard = try ServerProcess("lanyard", ["run", "--config", path])
        func address(_ name: String) async throws -> String {
            try await lanyard.event("listening") { $0["listener"].string == name }["address"].string ?? ""
        }
        let (data, health) = (try RawEndpoint(await address("data")), try RawEndpoint(await address("health")))
        try await eventually("it is ready") { (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200 }
        let response = try await RawClient.ask(data, "GET", "/", fields: [("Lanyard-Capability", secret)])
        #expect(response.status == 200)
        #expect(upstream.requests.first?.values("Authorization") == ["Bearer a-token"])
        let status = try await CommandRun(["status", "--admin", try await address("admin"), "--token-file", admin])
        #expect(status.exit == .code(0), "\(status.errors)")
        #expect(!lanyard.log.contains(secret))
    }

    @Test("what remains in a capability, a static token or an admin token is named with its file")
    func remaining() async throws {
        let (token, capability) = (
            try write("token", "Bearer abc\n"), try write("capability", "\(Self.key) \(Self.key)")
        )
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0", capability_file: \(capability)}]
            health: {address: "127.0.0.1:0"}
            admin: off
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]

            """)
        let check = try await CommandRun(["check", "--config", path])
        #expect(check.errors.contains { $0.contains("\(token) begins with the word Bearer") }, "\(check.errors)")
        let ofCapability = check.errors.filter { $0.contains(capability) }
        #expect(ofCapability.count == 1 && ofCapability[0].hasPrefix("error: \(path):1:"), "\(check.errors)")
        #expect(ofCapability.first?.contains("\(capability) has a blank at byte 32") == true, "\(check.errors)")
        #expect(check.exit == .code(78))
        let refused78 = try await CommandRun(["run", "--config", path])
        #expect(refused78.exit == .code(78) && refused78.errors.contains(ofCapability.first ?? ""))
        unlink(capability)
        let lanyard = try ServerProcess("lanyard", ["run", "--config", path])
        let refused = try await lanyard.event("session.credential.refused")
        #expect(refused["error"].string?.contains("\(token) begins with the word Bearer") == true, "\(refused)")
        _ = try write("capability", "\(Self.key) \(Self.key)")
        let failed = try await lanyard.event("listener.capability.failed") {
            $0["reason"].string?.contains("does not exist") == false
        }
        #expect(failed["reason"].string?.contains("\(capability) has a blank at byte 32") == true, "\(failed)")
    }

    @Test("TLS files with byte order marks, blanks and other line ends serve; UTF-16 is named")
    func certificates() async throws {
        let authority = TestAuthority()
        let issued = authority.issue("DNS:localhost,IP:127.0.0.1")
        let token = try write("token", "a-token")
        func path(_ certificate: String, _ key: String) throws -> String {
            try folder.write(
                "lanyard.yaml",
                """
                listeners: [{address: "127.0.0.1:0", tls: {certificate_file: \(certificate), key_file: \(key)}}]
                health: {address: "127.0.0.1:0"}
                admin: off
                identities: {fixed: {static: {token_file: \(token)}}}
                users: {alice: {identity: fixed}}
                routes: [{name: all, upstream: "http://127.0.0.1:9"}]

                """)
        }
        let certificate = try write("certificate", "\u{FEFF}" + issued.certificate.replacing("\n", with: "\r\n"))
        let key = try write("key", "  " + issued.key.replacing("\n", with: "\n  "))
        let check = try await CommandRun(["check", "--config", try path(certificate, key)])
        #expect(check.exit == .code(0), "\(check.errors)")
        let wide = try write("wide", "\u{FEFF}\(issued.key)", .utf16LittleEndian)
        let refused = try await CommandRun(["check", "--config", try path(certificate, wide)])
        #expect(refused.exit == .code(78))
        #expect(refused.errors.contains { $0.contains("\(wide) is text in UTF-16") }, "\(refused.errors)")
    }
}
