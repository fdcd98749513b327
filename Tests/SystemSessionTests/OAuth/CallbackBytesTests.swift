import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// The port on which `lanyard login` waits for the browser: any program of the machine can connect to it.
struct CallbackBytesTests {
    @Test("a callback with bytes that no URI has gets 400, and the login continues until its own signal")
    func foreignBytes() async throws {
        let folder = try TemporaryFolder()
        let socket = folder.file("admin.sock")
        let server = try RawServer { _ in .response(404, "Not Found", body: "").closing }
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              corp:
                oauth2:
                  endpoints: {token: "http://\(server.endpoint)/token", authorization: "http://\(server.endpoint)/login"}
                  client_id: lanyard
            users: {browser: {identity: corp, login: {authorization_code: {}}}}
            routes: [{upstream: "http://\(server.endpoint)"}]
            store: {memory: true}

            """, admin: "{address: \"unix:\(socket)\"}")
        let command = try ServerProcess("lanyard", ["login", "browser", "--no-browser", "--admin", "unix:\(socket)"])
        var port: UInt16?
        try await eventually("the command shows its port; it said:\n\(command.log)") {
            let shown = command.log.firstMatch(of: /127\.0\.0\.1(?:%3A|:)(\d+)(?:%2Fcallback|\/begin)/)
            port = shown.flatMap { UInt16($0.1) }
            return port != nil
        }
        let endpoint = RawEndpoint.tcp(try #require(port))
        let queries: [[UInt8]] = [
            Array("x=".utf8) + [0xff], Array("code=".utf8) + [0xc3, 0xa9], [0x00], Array("a=".utf8) + [0x00],
            Array("state=x&code=".utf8) + [0x80], [0x7f], [0x01], Array("a\tb".utf8),
        ]
        for query in queries {
            let head = Array("GET /callback?".utf8) + query + Array(" HTTP/1.1\r\nHost: \(endpoint)\r\n\r\n".utf8)
            let client = try RawClient(endpoint)
            try client.send(head)
            #expect(try client.response().status == 400, "\(query)")
        }
        // What is escaped is text, and of no login.
        for query in ["x=%ff", "%00=%00", "state=%80&code=%ff", "", "%", "=&=&"] {
            let status = try await RawClient.ask(endpoint, "GET", "/callback?\(query)").status
            #expect((400..<500).contains(status), "\(query)")
        }
        command.signal(2)
        #expect(try await command.waitForExit() == .code(130))
        try await lanyard.process.terminate()
    }
}
