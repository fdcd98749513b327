import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Python's http.server behind the built binary, Python's http.client in front of it: asked with Lanyard between them,
/// the client sees what it sees without.
@Suite(.serialized, .enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct PythonPeerTests {
    /// A server of the library's own kind that answers in every framing.
    private static let server = #"""
        import hashlib, http.server, json, sys, time

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = sys.argv[1]

            def log_message(self, *_): pass

            def body(self):
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while True:
                    size = int(self.rfile.readline().split(b";")[0], 16)
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                    if size == 0:
                        return b"".join(parts)

            def answer(self):
                body = self.body()
                if self.path == "/chunks":
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for number in range(50):
                        part = b"%d " % number * 100
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    self.wfile.write(b"0\r\n\r\n")
                elif self.path == "/until-close":
                    self.send_response(200)
                    self.send_header("Connection", "close")
                    self.end_headers()
                    for number in range(50):
                        self.wfile.write(b"%d " % number * 100)
                elif self.path in ("/204", "/304"):
                    self.send_response(int(self.path[1:]))
                    self.end_headers()
                else:
                    self.echo(body)

            def echo(self, body):
                told = json.dumps({
                    "method": self.command, "path": self.path, "tokens": self.headers.get_all("Authorization"),
                    "bytes": len(body), "digest": hashlib.sha256(body).hexdigest(),
                }).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(told)))
                self.send_header("Set-Cookie", "a=1; Path=/")
                self.send_header("Set-Cookie", "b=2; Path=/")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(told)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print("port", server.server_address[1], flush=True)
        server.serve_forever()
        """#

    /// A list of exchanges; each prints one line.
    private static let client = #"""
        import hashlib, http.client, json, sys

        host, version, token = sys.argv[1], int(sys.argv[2]), sys.argv[3]
        class Connection(http.client.HTTPConnection):
            _http_vsn = version
            _http_vsn_str = "HTTP/1.%d" % (version - 10)

        def parts():
            for number in range(40):
                yield b"%d," % number * 997

        fixed = {"Authorization": token}
        exchanges = [
            ("GET", "/echo", None, {}), ("HEAD", "/echo", None, {}), ("DELETE", "/echo", None, {}),
            ("POST", "/echo", b"", {}), ("POST", "/echo", b"x" * 300000, {}), ("PUT", "/echo?a=b", b"small", {}),
            ("GET", "/chunks", None, {}), ("GET", "/204", None, {}), ("GET", "/304", None, {}),
            ("GET", "/until-close", None, {}), ("GET", "/echo", None, {"X-Empty": ""}),
            ("OPTIONS", "/echo", None, {}), ("PATCH", "/echo", b"p", {}), ("GET", "/echo", b"a body", {}),
        ]
        if version == 11:
            exchanges += [("POST", "/echo", parts, {}), ("GET", "/echo", None, {})]
        connection = Connection(host)
        for method, path, body, headers in exchanges:
            chunked = callable(body)
            connection.request(
                method, path, body() if chunked else body, {**fixed, **headers}, encode_chunked=chunked)
            answer = connection.getresponse()
            text = answer.read()
            if version == 10:
                # http.server ends the connection of an HTTP/1.0 client without saying so.
                connection.close()
            print(json.dumps([
                method, path, answer.status, answer.reason, answer.headers.get_all("Set-Cookie"), len(text),
                hashlib.sha256(text).hexdigest(), json.loads(text) if text[:1] == b"{" else None]))
        """#

    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("server.py", Self.server)
        try folder.write("client.py", Self.client)
    }

    @Test(
        "http.client sees the same responses with Lanyard between it and http.server, in each version of both",
        arguments: ["HTTP/1.0", "HTTP/1.1"], [10, 11])
    func same(_ serverVersion: String, _ clientVersion: Int) async throws {
        let (server, endpoint) = try await PythonProcess.serve([folder.file("server.py"), serverVersion])
        let lanyard = try await LanyardProcess.start(before: "http://\(endpoint)")
        func ask(_ host: RawEndpoint) async throws -> [Substring] {
            try await PythonProcess.run(
                [folder.file("client.py"), "\(host)", "\(clientVersion)", "Bearer stream-token"]
            ).split(separator: "\n")
        }
        let through = try await ask(lanyard.data)
        // An HTTP/1.0 server writes its chunks unasked: RFC 9112 §6.1 makes that a fault, which Lanyard refuses to pass on.
        let faulty = serverVersion == "HTTP/1.0" ? "\"/chunks\"" : "none"
        let expected = try await ask(endpoint).filter { !$0.contains(faulty) }
        #expect(through.filter { !$0.contains(faulty) } == expected)
        #expect(expected.count >= 13)
        #expect(through.filter { $0.contains(faulty) }.allSatisfy { $0.contains(" 502, ") })
        try await server.terminate()
    }

    @Test(
        "Python's file server behind Lanyard: files, 304, 404, and 501 for an upload that it does not read",
        arguments: ["HTTP/1.0", "HTTP/1.1"])
    func files(_ version: String) async throws {
        try folder.write("file.txt", String(repeating: "line\n", count: 50_000))
        let (server, endpoint) = try await PythonProcess.serve(
            ["-m", "http.server", "--bind", "127.0.0.1", "--protocol", version, "--directory", folder.path, "0"])
        let lanyard = try await LanyardProcess.start(before: "http://\(endpoint)")
        let data = lanyard.data
        do {
            var client = try RawClient(data)
            let file = try client.exchange("GET", "/file.txt", host: "\(data)")
            #expect(file.status == 200 && file.bodyCount == 250_000 && file["Connection"] == nil)
            let since = try #require(file["Last-Modified"])
            #expect(try client.exchange("HEAD", "/file.txt", host: "\(data)")["Content-Length"] == "250000")
            let fields = [("If-Modified-Since", since)]
            #expect(try client.exchange("GET", "/file.txt", host: "\(data)", fields: fields).status == 304)
            #expect(try client.exchange("GET", "/missing", host: "\(data)").status == 404)
            for _ in 0..<20 {
                // It answers at once and closes with the body unread, which resets the connection.
                let body = [UInt8](repeating: 0x75, count: 2 << 20)
                try client.send("POST /file.txt HTTP/1.1\r\nHost: \(data)\r\nContent-Length: \(body.count)\r\n\r\n")
                try? client.send(body)
                let response = try client.response()
                #expect(response.status == 501, "\(response.headText)\(response.bodyText.prefix(300))")
                client = try RawClient(data)
            }
        }
        #expect(try await server.terminate() == .signal(15))
    }
}
