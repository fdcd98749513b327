import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard at glewlwyd over https, as a client that shows who it is by its certificate. Its tokens are bound to that (RFC 8705).
@Suite(.enabled(if: GlewlwydServer.isThere, "needs deploy/peer-servers glewlwyd"))
struct BoundTokenServerTests {
    private static let names = ["lanyard", "other"]

    /// A certificate for servers and one for each client, of one authority.
    private static func makeCertificates(in folder: TemporaryFolder) throws {
        let authority = TestAuthority()
        try folder.write("ca.pem", authority.pem)
        let server = authority.issue("IP:127.0.0.1")
        try folder.write("server.pem", server.certificate)
        try folder.write("server.key", server.key)
        for name in names {
            let client = authority.issue("DNS:\(name).test", commonName: name, purpose: "clientAuth")
            try folder.write("\(name).pem", client.certificate)
            try folder.write("\(name).key", client.key)
        }
    }

    /// The keys `tls` of an identity or a route that has the certificate of that name.
    private static func tls(_ name: String, _ folder: TemporaryFolder) -> String {
        """
        tls: {ca_file: \(folder.file("ca.pem")), certificate_file: \(folder.file("\(name).pem")), \
        key_file: \(folder.file("\(name).key"))}
        """
    }

    @Test(
        "a token is bound to the certificate that got it: with that one the upstream takes it, with another it does not"
    )
    func boundTokens() async throws {
        let folder = try TemporaryFolder()
        try Self.makeCertificates(in: folder)
        let server = try await GlewlwydServer.start(lifetime: 3600, tls: folder)
        let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/bound_resource.py"
        let (upstream, endpoint) = try await PythonProcess.serve(["-B", script, folder.path])
        let socket = folder.file("admin.sock")
        let password = try folder.write("password", "wonderland")
        let login = "login: {password: {username: alice, password_file: \(password)}}"
        let client = "oauth2: {issuer: \"\(server.issuer)\", client_id: lanyard, scopes: [api], rotation: one_use}"
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              own: {\(client), \(Self.tls("lanyard", folder))}
              wrong: {\(client), \(Self.tls("other", folder))}
            users:
              alice: {identity: own, \(login)}
              bob: {identity: wrong, \(login)}
            routes:
              - {name: same, match: {path: /same}, upstream: "https://\(endpoint)", user: alice, \(Self.tls("lanyard", folder))}
              - {name: another, match: {path: /another}, upstream: "https://\(endpoint)", user: alice, \(Self.tls("other", folder))}
            store: {memory: true}

            """, admin: "{address: \"unix:\(socket)\"}")
        let admin = AdminClient(endpoint: .unix(socket))
        // The authority is the same; the name is not that of the client.
        let refused = try await lanyard.process.event("session.login.failed") { $0["user"].string == "bob" }
        #expect(refused["status"].int == 403, "\(refused)")
        try await lanyard.untilReady()
        for _ in 0..<2 {
            let response = try await lanyard.get("/same")
            #expect(response.status == 200, "\(response.bodyText)")
            #expect(Set(response.bodyText.split(separator: " ")).count == 1, "\(response.bodyText)")
            try await admin.call("POST", "/v1/users/alice/refresh")
        }
        let response = try await lanyard.get("/another")
        #expect(
            response.status == 401 && Set(response.bodyText.split(separator: " ")).count == 2, "\(response.bodyText)")
        #expect(!lanyard.process.lines.contains { $0.event == "identity.token.binding_differs" })
        let logout = try await admin.call("POST", "/v1/users/alice/logout")
        #expect(logout["revoked"].bool == true, "\(logout)")
        try await lanyard.process.terminate()
        try await upstream.terminate()
        try await server.stop()
    }
}
