import TestSupport
import Testing

/// An `https` upstream in Python's `ssl`: it prints a line for each request that it reads, for each connection
/// that ends in order and for each that fails.
final class TLSUpstream: Sendable {
    /// In its folder are `ca.pem`, `leaf.pem` and `leaf.key`. While it has a file `hold`, handshakes that clients have begun wait.
    let folder: TemporaryFolder
    let process: ServerProcess
    let port: UInt16

    /// One authority for all upstreams that need no special one.
    static let authority = TestAuthority()

    /// - Parameters:
    ///   - mode: `1.2` speaks TLS 1.2 only; `demand` demands a client certificate of the authority; `late` closes each connection after one
    ///     response; `later` demands a client certificate for the path `/later`, after the handshake; `plain` speaks no TLS;
    ///     `h2` agrees on `h2` or `http/1.1`, `h2 only` on `h2`, `no ALPN` on nothing. HTTP/1.1 is spoken in any case.
    static func start(
        _ issued: TestAuthority.Issued = authority.issue(), mode: String = ""
    ) async throws -> TLSUpstream {
        let folder = try TemporaryFolder()
        try folder.write("ca.pem", authority.pem)
        try folder.write("leaf.pem", issued.certificate)
        try folder.write("leaf.key", issued.key)
        let (process, endpoint) = try await PythonProcess.serve(["-c", script, folder.path, mode])
        return TLSUpstream(folder, process, endpoint.port)
    }

    private init(_ folder: TemporaryFolder, _ process: ServerProcess, _ port: UInt16) {
        self.folder = folder
        self.process = process
        self.port = port
    }

    /// As a route's `upstream`.
    var url: String { "https://localhost:\(port)" }

    /// Keys of a route that trusts its authority.
    var trust: String { "tls: {ca_file: \(folder.file("ca.pem"))}" }

    /// The requests that it has read.
    var requests: [String] {
        process.output.split(separator: "\n").filter { $0.hasPrefix("request ") }.map(String.init)
    }

    private static let script = """
        import hashlib, os, socket, ssl, sys, threading, time
        folder, mode = sys.argv[1:3]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder + "/leaf.pem", folder + "/leaf.key")
        if "no ALPN" not in mode: context.set_alpn_protocols(["h2"] * ("h2" in mode) + ["http/1.1"] * ("h2 only" not in mode))
        if "1.2" in mode: context.maximum_version = ssl.TLSVersion.TLSv1_2
        names = {}
        context.sni_callback = lambda tls, name, _: names.__setitem__(tls, name)
        if "later" in mode:
            context.load_verify_locations(folder + "/ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED
            context.post_handshake_auth = True
        if "demand" in mode:
            context.load_verify_locations(folder + "/ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED

        # The request for the certificate goes out with the interim response. Reading processes what the client sends for it.
        def late_certificate(tls):
            try: tls.verify_client_post_handshake()
            except ssl.SSLError: return b"cannot ask"
            tls.sendall(b"HTTP/1.1 102 Processing\\r\\n\\r\\n")
            tls.settimeout(0.05)
            while not tls.getpeercert():
                try:
                    if tls.recv(1) == b"": return b"ended"
                except TimeoutError: pass
            tls.settimeout(None)
            return tls.getpeercert()["serialNumber"].encode()

        def answer(tls, file, peer):
            line = file.readline().decode()
            if not line: return False
            fields = {}
            while (field := file.readline().decode().strip()): 
                name, value = field.split(":", 1)
                fields[name.lower()] = value.strip()
            method, path, _ = line.split(" ")
            sys.stdout.write(f"request {method} {path}\\n")
            body = file.read(int(fields.get("content-length", 0)))
            if path == "/upgrade":
                tls.sendall(b"HTTP/1.1 101 Switching\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n")
                while (part := tls.recv(65536)): tls.sendall(part)
                return False
            if path in ("/cut", "/whole"):
                tls.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n" + b"x" * 50000)
                if path == "/cut": socket.socket(fileno=tls.detach()).close()
                return False
            if path == "/big": text = b"y" * 5000000
            elif path == "/certificate": text = tls.getpeercert()["serialNumber"].encode()
            # An identity service's location of an app.
            elif path.endswith("/location"): text = b'{"hostname": ""}'
            elif path == "/name": text = f"{names.get(tls)} {fields['host']}".encode()
            elif path == "/later": text = late_certificate(tls)
            elif method == "POST": text = hashlib.sha256(body).hexdigest().encode()
            else:
                facts = [tls.version(), str(tls.session_reused), str(peer), str(tls.selected_alpn_protocol())]
                text = " ".join(facts + [fields.get("authorization", "-")]).encode()
            close = b"Connection: close\\r\\n" if "late" in mode else b""
            tls.sendall(b"HTTP/1.1 200 OK\\r\\n" + close + b"Content-Length: %d\\r\\n\\r\\n" % len(text) + text)
            return not close

        def serve(raw):
            try:
                peer = raw.getpeername()[1]
                if "plain" in mode:
                    raw.recv(65536)
                    raw.sendall(b"HTTP/1.1 400 Bad Request\\r\\nContent-Length: 0\\r\\n\\r\\n")
                    return raw.close()
                if os.path.exists(folder + "/hold"):
                    raw.recv(1, socket.MSG_PEEK)
                    sys.stdout.write("held\\n")
                    while os.path.exists(folder + "/hold"): time.sleep(0.02)
                tls = context.wrap_socket(raw, server_side=True)
                file = tls.makefile("rb")
                while answer(tls, file, peer): pass
                file.close()
                if tls.fileno() >= 0: tls.unwrap().close()
                sys.stdout.write("ended\\n")
            except (OSError, ValueError) as error: sys.stdout.write(f"failed {error}\\n")

        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        print("port", listener.getsockname()[1], flush=True)
        while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
        """
}
