import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Variables of the environment that libraries obey: none of them changes what Lanyard does.
@Suite struct LibraryEnvironmentTests {
    /// An App Services identity over TLS, whose logins succeed; it prints the cipher suite of each login.
    private final class TLSIdentity: Sendable {
        let folder: TemporaryFolder
        let process: ServerProcess
        let endpoint: RawEndpoint

        init() async throws {
            folder = try TemporaryFolder()
            try folder.write("server.py", Self.script)
            try folder.write("password", "correct-horse\n")
            let make = """
                cd \(folder.path) && exec 2>/dev/null && openssl req -x509 -newkey ec \
                -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -subj /CN=test -days 2 \
                -addext subjectAltName=IP:127.0.0.1
                """
            let maker = try ServerProcess("/bin/sh", ["-c", make])
            guard try await maker.waitForExit() == .code(0) else {
                throw TestFailure("openssl could not make a certificate")
            }
            (process, endpoint) = try await PythonProcess.serve([folder.file("server.py"), folder.path])
        }

        func lanyard(_ variables: [String: String], proxy: String = "none") async throws -> LanyardProcess {
            try await LanyardProcess.start(
                """
                identities:
                  demo:
                    app_services: {app_id: demo-abcde, base_url: "https://\(endpoint)"}
                    proxy: \(proxy)
                    tls: {ca_file: \(folder.file("cert.pem"))}
                users:
                  alice:
                    identity: demo
                    login: {email_password: {email: a@example.com, password_file: \(folder.file("password"))}}
                routes: [{name: all, upstream: "http://127.0.0.1:9"}]

                """, launcher: ["/usr/bin/env"] + variables.map { "\($0)=\($1)" })
        }

        private static let script = """
            import base64, json, ssl, sys, time
            from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
            def part(value): return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
            def token(): return part({"alg": "none"}) + "." + part({"iat": int(time.time()), "exp": int(time.time()) + 1800}) + ".c2ln"
            class Handler(BaseHTTPRequestHandler):
                protocol_version = "HTTP/1.1"
                def answer(self):
                    self.rfile.read(int(self.headers.get("Content-Length") or 0))
                    said = {"hostname": ""}
                    if self.path.endswith("/login"):
                        print("login over", self.connection.cipher()[0])
                        said = {"access_token": token(), "refresh_token": token(), "user_id": "u1", "device_id": "d1"}
                    body = json.dumps(said).encode()
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                do_GET = do_POST = do_DELETE = answer
                def log_message(self, *arguments): pass
            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
            print("port", server.server_address[1])
            server.serve_forever()
            """
    }

    @Test("SSLKEYLOGFILE: the secrets of identity calls are written nowhere, and the log names the variable only")
    func keyLog() async throws {
        let identity = try await TLSIdentity()
        let file = identity.folder.file("keylog")
        let lanyard = try await identity.lanyard(["SSLKEYLOGFILE": file])
        try await lanyard.process.event("session.login.succeeded")
        #expect(!FileManager.default.fileExists(atPath: file))
        let line = try await lanyard.process.event("start.environment_cleared")
        #expect(line["variables"].string == "SSLKEYLOGFILE")
        #expect(!lanyard.process.log.contains(file))
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("OPENSSL_CONF: a file that would choose another cipher suite is not read")
    func openSSLConfiguration() async throws {
        let identity = try await TLSIdentity()
        let path = try identity.folder.write(
            "openssl.cnf",
            """
            openssl_conf = start
            [start]
            ssl_conf = ssl
            [ssl]
            system_default = system
            [system]
            Ciphersuites = TLS_CHACHA20_POLY1305_SHA256

            """)
        let lanyard = try await identity.lanyard(["OPENSSL_CONF": path, "OPENSSL_MODULES": identity.folder.path])
        try await lanyard.process.event("session.login.succeeded")
        #expect(identity.process.output.contains("login over TLS_AES_256_GCM_SHA384"), "\(identity.process.output)")
        let line = try await lanyard.process.event("start.environment_cleared")
        #expect(line["variables"].string == "OPENSSL_CONF, OPENSSL_MODULES")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "proxy variables are kept for an identity with proxy: environment, else cleared",
        arguments: ["none", "environment"])
    func proxies(_ proxy: String) async throws {
        let identity = try await TLSIdentity()
        let middle = try RawServer { _ in .response(503, "Nothing") }
        let lanyard = try await identity.lanyard(["https_proxy": "http://\(middle.endpoint)"], proxy: proxy)
        if proxy == "none" {
            try await lanyard.process.event("session.login.succeeded")
            let line = try await lanyard.process.event("start.environment_cleared")
            #expect(line["variables"].string == "https_proxy")
            #expect(middle.connectionCount == 0)
        } else {
            try await lanyard.process.event("session.login.failed")
            #expect(middle.requests.first?.method == "CONNECT")
            #expect(!lanyard.process.lines.contains { $0.event == "start.environment_cleared" })
        }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("an identity's proxy gets the credential of its file, byte for byte, and its refusal is told as the proxy's")
    func credentials() async throws {
        let identity = try await TLSIdentity()
        let service = identity.endpoint
        let proxy = try RawServer { request in
            request.message["Proxy-Authorization"] == "Basic dXNlcjpwJTQxOnM="
                ? .tunnel(to: service) : .response(407, "Login")
        }
        let file = identity.folder.file("credentials")
        for (text, event) in [
            ("user:p%41:s\n", "session.login.succeeded"), ("user:other", "session.login.failed"),
        ] {
            try identity.folder.write("credentials", text)
            let lanyard = try await identity.lanyard(
                [:], proxy: "{url: \"http://\(proxy.endpoint)\", credentials_file: \(file)}")
            try await lanyard.process.event(event)
            let isTold = lanyard.process.log.contains("the proxy refused to connect to it, with the status 407")
            #expect(isTold == (event == "session.login.failed"), "\(lanyard.process.log)")
            #expect(!lanyard.process.log.contains("p%41") && !lanyard.process.log.contains("other"))
            #expect(try await lanyard.process.terminate() == .code(143))
        }
        #expect(!proxy.requests.isEmpty && proxy.requests.allSatisfy { $0.method == "CONNECT" })
    }

    @Test("without such variables the log says nothing of them")
    func quiet() async throws {
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(before: "http://\(upstream.endpoint)")
        try await lanyard.process.settle()
        #expect(!lanyard.process.lines.contains { $0.event == "start.environment_cleared" })
    }
}
