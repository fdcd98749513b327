import TestSupport
import Testing

@testable import SystemTestSupport

/// The built Lanyard with device logins at django-oauth-toolkit: a public client, endpoints by hand, no address with the code in it.
@Suite(.enabled(if: PythonServer.isThere("django"), "needs deploy/peer-servers django"))
struct LongDeviceLoginTests {
    private static func confirm(_ server: PythonServer, _ code: String) async throws {
        let script = Products.root + "/Tests/SystemSessionTests/OAuth/Peer/django_server.py"
        _ = try await PythonProcess.run(["-B", script, "--confirm", server.base, code])
    }

    @Test("a device login by the command and by the admin API; the token is taken, and renewed")
    func device() async throws {
        let server = try await PythonServer.start("django")
        let folder = try TemporaryFolder()
        let socket = folder.file("admin.sock")
        let yaml = """
            identities:
              corp:
                oauth2:
                  endpoints: {token: "\(server.base)/o/token/", device_authorization: "\(server.base)/o/device-authorization/"}
                  client_id: dev
                  scopes: [api]
            users:
              phone: {identity: corp, login: {device: {}}}
              tablet: {identity: corp, login: {device: {}}}
            routes:
              - {name: phone, match: {path: /phone}, upstream: "\(server.base)/api/echo", user: phone}
              - {name: tablet, match: {path: /tablet}, upstream: "\(server.base)/api/echo", user: tablet}
            store: {memory: true}

            """
        let lanyard = try await LanyardProcess.start(yaml, admin: "{address: \"unix:\(socket)\"}")
        let admin = AdminClient(endpoint: .unix(socket))
        let command = try ServerProcess("lanyard", ["login", "phone", "--admin", "unix:\(socket)"])
        var code: String?
        try await eventually("the command shows the code; it said:\n\(command.log)") {
            code = command.log.firstMatch(of: /\ \ ([A-Z0-9]{8})\n/).map { String($0.1) }
            return code != nil
        }
        try await Self.confirm(server, try #require(code))
        #expect(try await command.waitForExit() == .code(0), "\(command.log)")
        let login = try await admin.call("POST", "/v1/users/tablet/login")
        #expect(login["verification_uri_complete"].string == nil && login["interval"].int == 1)
        try await Self.confirm(server, try #require(login["user_code"].string))
        let path = "/v1/users/tablet/login/" + (login["id"].string ?? "")
        try await eventually("the login is done") { try await admin.call("GET", path)["status"].string == "done" }
        for user in ["phone", "tablet"] {
            #expect(try await RawClient.ask(lanyard.data, "GET", "/\(user)").bodyText == #"{"sub": "alice"}"#)
            try await admin.call("POST", "/v1/users/\(user)/refresh")
            #expect(try await RawClient.ask(lanyard.data, "GET", "/\(user)").status == 200)
        }
        try await lanyard.process.terminate()
        try await server.stop()
    }
}
