import TestSupport
import Testing

@testable import SystemTestSupport

/// Keys that sign assertions, as `lanyard check` judges them.
@Suite struct SigningKeyCheckTests {
    private let folder: TemporaryFolder
    private let key = TestAuthority().issue().key

    init() throws {
        folder = try TemporaryFolder()
        for name in ["client.pem", "login.pem", "google.json", "app.pem"] { try folder.write(name, "no key") }
    }

    private func check(_ flags: [String] = []) async throws -> (exit: ServerProcess.Exit, errors: [String]) {
        let path = try folder.write(
            "lanyard.yaml",
            """
            identities:
              corp: {oauth2: {issuer: "https://a.example", client_id: c, client_key: {file: client.pem}}}
              app: {github_app: {app_id: "1", installation_id: "2", key_file: app.pem}}
            users:
              robot: {identity: corp, login: {client_credentials: {}}}
              signer: {identity: corp, login: {jwt_bearer: {key: {file: login.pem}}}}
              cloud: {identity: corp, login: {jwt_bearer: {google_key_file: google.json}}}
              ci: {identity: app, login: {github_app: {}}}
            routes: [{upstream: "https://b.example"}]

            """)
        let process = try ServerProcess("lanyard", ["check", "--config", path] + flags)
        return (try await process.waitForExit(), process.lines.map(\.text))
    }

    @Test("each file without a usable key: a warning with line, column, key and remedy; an error with --strict")
    func unusable() async throws {
        let (exit, errors) = try await check()
        #expect(exit == .code(0), "\(errors)")
        for (place, words) in [
            ("2:81: identities.corp.oauth2.client_key.file", "client.pem holds no private key in PEM"),
            ("3:67: identities.app.github_app.key_file", "app.pem holds no private key in PEM"),
            ("6:61: users.signer.login.jwt_bearer.key.file", "login.pem holds no private key in PEM"),
            ("7:65: users.cloud.login.jwt_bearer.google_key_file", "google.json is no JSON key file of a service"),
        ] {
            let line = errors.first { $0.contains(words) } ?? ""
            #expect(line.contains("lanyard.yaml:\(place): "), "\(words): \(errors)")
            #expect(line.hasSuffix("; logins with it are refused until the file is corrected"))
        }
        #expect(try await check(["--strict"]).exit == .code(78))
    }

    @Test("a key of the wrong kind is named with what the algorithm needs; one of the right kind is no finding")
    func kinds() async throws {
        for name in ["client.pem", "login.pem", "app.pem"] { try folder.write(name, key) }
        let text = try await check().errors.joined(separator: "\n")
        #expect(!text.contains("client.pem") && !text.contains("login.pem"), "\(text)")
        #expect(text.contains("app.pem holds no RSA key, which RS256 needs"), "\(text)")
    }
}
