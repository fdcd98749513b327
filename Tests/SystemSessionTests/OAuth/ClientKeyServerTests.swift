import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at glewlwyd as a client that signs assertions (private_key_jwt).
@Suite(.enabled(if: GlewlwydServer.isThere, "needs deploy/peer-servers glewlwyd"))
struct ClientKeyServerTests {
    private static let kinds = [
        ("RS256", ["-algorithm", "RSA"]), ("ES256", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ]

    private static func openssl(_ arguments: [String]) async throws {
        let exit = try await ServerProcess("/usr/bin/openssl", arguments).waitForExit()
        guard exit == .code(0) else { throw TestFailure("openssl \(arguments): \(exit)") }
    }

    /// Keys of two clients, which the server knows, and `other`, which it does not.
    private static func makeKeys(_ server: GlewlwydServer, _ folder: TemporaryFolder) async throws {
        for (name, arguments) in kinds + [("other", kinds[0].1)] {
            try await openssl(["genpkey"] + arguments + ["-out", folder.file(name)])
            try await openssl(["pkey", "-in", folder.file(name), "-pubout", "-out", folder.file("\(name).public")])
        }
        let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/glewlwyd_signer.py"
        let clients = kinds.map { "\($0.0)=\(folder.file("\($0.0).public"))" }
        _ = try await PythonProcess.run(["-B", script, "http://\(server.endpoint)"] + clients)
    }

    private static func identity(
        _ server: GlewlwydServer, _ name: String, _ key: String, audience: String = "token_endpoint"
    ) -> String {
        """
        {oauth2: {issuer: "\(server.issuer)", client_id: \(name), scopes: [api], rotation: one_use,
            client_key: {file: \(key), algorithm: \(name), audience: \(audience)}}}
        """
    }

    @Test("RS256 and ES256 for logins and refreshes; another key is refused, and the right one is taken from its file")
    func assertions() async throws {
        let server = try await GlewlwydServer.start(lifetime: 3600)
        let folder = try TemporaryFolder()
        try await Self.makeKeys(server, folder)
        let right = try String(contentsOfFile: folder.file("RS256"), encoding: .utf8)
        let socket = folder.file("admin.sock")
        let login = "login: {password: {username: alice, password_file: \(try folder.write("password", "wonderland"))}}"
        let yaml = """
            identities:
              rs: \(Self.identity(server, "RS256", folder.file("RS256")))
              es: \(Self.identity(server, "ES256", folder.file("ES256")))
              other: \(Self.identity(server, "RS256", folder.file("other")))
            users:
              rs: {identity: rs, \(login)}
              es: {identity: es, \(login)}
              other: {identity: other, \(login)}
            routes:
              - {name: rs, match: {path: /rs}, upstream: "\(server.resource)", user: rs}
              - {name: es, match: {path: /es}, upstream: "\(server.resource)", user: es}
              - {name: other, match: {path: /other}, upstream: "\(server.resource)", user: other}
            store: {memory: true}

            """
        let lanyard = try await LanyardProcess.start(yaml, admin: "{address: \"unix:\(socket)\"}")
        let admin = AdminClient(endpoint: .unix(socket))
        let failed = try await lanyard.process.event("session.login.failed") { $0["user"].string == "other" }
        #expect(failed["status"].int == 403, "\(failed)")
        try folder.write("other", right)
        try await lanyard.untilReady()
        for user in ["rs", "es", "other"] {
            for _ in 0..<2 {
                try await admin.call("POST", "/v1/users/\(user)/refresh")
                #expect(try await lanyard.get("/\(user)").status == 200)
            }
        }
        let events = lanyard.process.lines
        #expect(!events.contains { $0.event == "session.dead" })
        #expect(Set(events.filter { $0.event == "session.login.failed" }.map { $0.json["user"].string }) == ["other"])
        try await lanyard.process.terminate()
        try await server.stop()
    }

    @Test("the server wants each endpoint as aud of the assertion that it gets: device, pushed request, revocation")
    func audiences() async throws {
        let server = try await GlewlwydServer.start(lifetime: 3600, isPushed: true)
        let folder = try TemporaryFolder()
        try await Self.makeKeys(server, folder)
        let socket = folder.file("admin.sock")
        let password = try folder.write("password", "wonderland")
        var (identities, users) = ("", "")
        for audience in ["endpoint", "token_endpoint"] {
            identities += "  \(audience): \(Self.identity(server, "ES256", folder.file("ES256"), audience: audience))\n"
            for (name, login) in [
                ("phone", "device: {}"), ("browser", "authorization_code: {}"),
                ("alice", "password: {username: alice, password_file: \(password)}"),
            ] { users += "  \(name)-\(audience): {identity: \(audience), login: {\(login)}}\n" }
        }
        let lanyard = try await LanyardProcess.start(
            """
            identities:
            \(identities)users:
            \(users)routes: [{upstream: "\(server.resource)", user: alice-endpoint}]
            store: {memory: true}

            """, admin: "{address: \"unix:\(socket)\"}")
        let admin = AdminClient(endpoint: .unix(socket))
        try await lanyard.untilReady()
        let back = #"{"redirect_uri":"http://127.0.0.1:9/cb"}"#
        let phone = try await admin.call("POST", "/v1/users/phone-endpoint/login")
        #expect(phone["user_code"].string != nil, "\(phone)")
        let browser = try await admin.call("POST", "/v1/users/browser-endpoint/login", back)
        #expect(browser["authorization_uri"].string?.contains("request_uri=") == true, "\(browser)")
        let logout = try await admin.call("POST", "/v1/users/alice-endpoint/logout")
        #expect(logout["revoked"].bool == true, "\(logout)")
        let other = "token_endpoint"
        for (user, body) in [("phone", nil), ("browser", back)] as [(String, String?)] {
            let refused = try await admin.ask("POST", "/v1/users/\(user)-\(other)/login", body)
            #expect(refused.status >= 400 && refused.bodyText.contains("responded with 40"), "\(refused.bodyText)")
        }
        let kept = try await admin.call("POST", "/v1/users/alice-\(other)/logout")
        #expect(kept["revoked"].bool == false, "\(kept)")
        try await lanyard.process.terminate()
        try await server.stop()
    }
}
