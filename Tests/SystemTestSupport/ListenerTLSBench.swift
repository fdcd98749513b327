import Foundation
import TestSupport

/// The built program with one TLS listener, whose certificates are made on the spot, and an upstream in Python.
final class ListenerTLSBench: Sendable {
    /// Issues the listener's certificates. Clients trust it.
    static let authority = TestAuthority("The listener's authority")
    /// Issues the certificates of clients.
    static let clientAuthority = TestAuthority("The clients' authority")

    let lanyard: LanyardProcess
    let folder: TemporaryFolder
    private let upstream: ServerProcess

    /// - Parameters:
    ///   - keys: further keys of `tls`.
    ///   - listener: further keys of the listener.
    ///   - rest: further sections.
    ///   - clock: of the program, which stands from then on; nil: real time.
    static func start(
        _ keys: String = "", certificate: TestAuthority.Issued = authority.issue("DNS:localhost,IP:127.0.0.1"),
        listener: String = "", rest: String = "", under clock: TestClock? = nil
    ) async throws -> ListenerTLSBench {
        let folder = try TemporaryFolder()
        try folder.write("ca.pem", authority.pem)
        try folder.write("clients.pem", clientAuthority.pem)
        try write(certificate, to: folder)
        let (upstream, endpoint) = try await PythonProcess.serve(["-c", server])
        var tls = "certificate_file: \(folder.file("cert.pem")), key_file: \(folder.file("key.pem"))"
        if !keys.isEmpty { tls += ", " + keys.replacing("FOLDER", with: folder.path) }
        var own = "address: \"127.0.0.1:0\", tls: {\(tls)}"
        if !listener.isEmpty { own += ", " + listener }
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(endpoint)\", upgrades: [websocket]}]\n" + rest,
            token: "tls-token", listener: own, under: clock)
        try await lanyard.untilReady()
        clock?.stop()
        return ListenerTLSBench(lanyard, folder, upstream)
    }

    private init(_ lanyard: LanyardProcess, _ folder: TemporaryFolder, _ upstream: ServerProcess) {
        (self.lanyard, self.folder, self.upstream) = (lanyard, folder, upstream)
    }

    /// Writes the listener's certificate and key as an operator does: to other files, then renamed.
    static func write(_ issued: TestAuthority.Issued, to folder: TemporaryFolder) throws {
        try replace("cert.pem", by: issued.certificate, in: folder)
        try replace("key.pem", by: issued.key, in: folder)
    }

    static func replace(_ name: String, by text: String, in folder: TemporaryFolder) throws {
        try folder.write(name + ".new", text)
        guard rename(folder.file(name + ".new"), folder.file(name)) == 0 else { throw TestFailure("rename: \(errno)") }
    }

    /// Writes a client's certificate with its key to one file.
    func writeClient(
        _ name: String, names: String, purpose: String = "clientAuth",
        authority: TestAuthority = ListenerTLSBench.clientAuthority, to seconds: Int = 86_400
    ) throws {
        let issued = authority.issue(names, purpose: purpose, to: seconds)
        try folder.write(name, issued.certificate + issued.key)
    }

    /// Where clients connect, by the name of the certificate.
    var port: UInt16 { if case .tcp(let port) = lanyard.data { port } else { 0 } }

    /// Runs a client in Python behind `prelude`; its output.
    func python(_ script: String, _ arguments: [String] = []) async throws
        -> String
    {
        try await PythonProcess.run(
            ["-c", Self.prelude + script, folder.path, "\(port)"] + arguments)
    }

    /// Ten clients in Python behind `prelude`.
    func clients(_ script: String) async throws -> PythonClients {
        try await PythonClients.start(Self.prelude + script, in: folder, ["\(port)"])
    }

    /// A metric's values by one of its labels.
    func values(of metric: String, by label: String) async throws -> [String: Int] {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").body
        let samples = try ExpositionReader(page, openMetrics: false).samples
        var values: [String: Int] = [:]
        for sample in samples where sample.name == metric {
            values[sample.labels[label] ?? "", default: 0] += Int(sample.value)
        }
        return values
    }

    func handshakes() async throws -> [String: Int] {
        try await values(of: "lanyard_tls_handshakes_total", by: "result").filter { $0.value > 0 }
    }

    /// `folder`, `port`, and functions that connect and ask.
    private static let prelude = #"""
        import hashlib, os, select, socket, ssl, sys, threading, time
        folder, port = sys.argv[1], int(sys.argv[2])

        def context(version=None, certificate=None):
            made = ssl.create_default_context(cafile=folder + "/ca.pem")
            made.set_alpn_protocols(["http/1.1"])
            if version == "1.2": made.maximum_version = ssl.TLSVersion.TLSv1_2
            if version == "1.3": made.minimum_version = ssl.TLSVersion.TLSv1_3
            if certificate: made.load_cert_chain(folder + "/" + certificate)
            return made

        def plain(): return socket.create_connection(("127.0.0.1", port), 15)

        def connect(made=None, **more):
            return (made or context()).wrap_socket(plain(), server_hostname="localhost", **more)

        def request(path, method="GET", fields=""):
            return f"{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\n{fields}\r\n".encode()

        def response(file):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = file.readline()
                if not line: raise EOFError(head)
                head += line
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            return int(head.split()[1]), fields, file.read(int(fields.get(b"content-length", b"0")))

        def ask(path, made=None, **more):
            with connect(made, **more) as client:
                client.sendall(request(path))
                with client.makefile("rb") as file: return response(file)


        """#

    /// `/size/N` gives N bytes, a body's digest comes back, and an upgraded connection is echoed.
    private static let server = #"""
        import hashlib, http.server, sys

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def log_message(self, *_): pass
            def reply(self, body):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def do_GET(self):
                if self.headers.get("Upgrade"):
                    self.send_response(101)
                    self.send_header("Upgrade", "websocket")
                    self.send_header("Connection", "Upgrade")
                    self.end_headers()
                    while part := self.connection.recv(65536): self.connection.sendall(part)
                    self.close_connection = True
                elif self.path.startswith("/size/"):
                    self.send_response(200)
                    size = int(self.path[6:])
                    self.send_header("Content-Length", str(size))
                    self.end_headers()
                    block = bytes(range(251)) * 256
                    while size > 0:
                        self.wfile.write(block[:size])
                        size -= min(size, len(block))
                else:
                    self.reply(b"ok")
            def do_PUT(self):
                digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
                while left > 0:
                    part = self.rfile.read(min(left, 1 << 16))
                    if not part: return
                    digest.update(part)
                    left -= len(part)
                self.reply(digest.hexdigest().encode())

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.request_queue_size = 512
        server.socket.listen(512)
        print("port", server.server_address[1], flush=True)
        server.serve_forever()
        """#
}
