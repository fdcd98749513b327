import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// A listener with TLS as its clients meet it: Python's ssl, curl and openssl s_client in front of the built binary.
@Suite(
    .serialized,
    .enabled("needs Python, curl and openssl") {
        PythonProcess.isInstalled && access("/usr/bin/curl", X_OK) == 0 && access("/usr/bin/openssl", X_OK) == 0
    })
struct ListenerTLSTests {
    private static let shared = Task { try await ListenerTLSBench.start() }
    private let bench: ListenerTLSBench

    init() async throws { bench = try await Self.shared.value }

    private func curl(_ arguments: [String]) async throws -> (exit: ServerProcess.Exit, output: String) {
        let fixed = ["-sS", "-m", "20", "--http1.1", "--cacert", bench.folder.file("ca.pem")]
        let process = try ServerProcess("/usr/bin/curl", fixed + arguments)
        return (try await process.waitForExit(), process.output)
    }

    @Test("curl: a response over https, and another on the same connection")
    func curl() async throws {
        let url = "https://localhost:\(bench.port)/"
        let (exit, output) = try await curl([
            "-w", " %{http_version} %{num_connects} %{ssl_verify_result}\n", url, url,
        ])
        #expect(exit == .code(0))
        #expect(output == "ok 1.1 1 0\nok 1.1 0 0\n")
    }

    @Test("requests on one connection, one after another and pipelined, over both versions", arguments: ["1.2", "1.3"])
    func requests(_ version: String) async throws {
        let output = try await bench.python(
            """
            with connect(context(sys.argv[3])) as client, client.makefile("rb") as file:
                print(client.version(), client.selected_alpn_protocol())
                for _ in range(20):
                    client.sendall(request("/"))
                    assert response(file)[::2] == (200, b"ok")
                client.sendall(request("/size/3") + request("/size/4") + request("/"))
                print(*(len(response(file)[2]) for _ in range(3)))
                for byte in request("/"): client.sendall(bytes([byte]))
                print(*response(file)[::2])
            """, [version])
        let lines = output.split(separator: "\n")
        #expect(lines.first == "TLSv\(version) http/1.1")
        #expect(lines.dropFirst() == ["3 4 2", "200 b'ok'"])
    }

    @Test("1.6 The scheme of an absolute target is https here, and 443 the port of a host that names none")
    func absolute() async throws {
        let bench = try await ListenerTLSBench.start(listener: "allowed_hosts: [api.internal, \"localhost:80\"]")
        let output = try await bench.python(
            """
            for target, host in [
                ("https://api.internal/", "api.internal"), ("https://API.internal:443/", "api.internal"),
                ("https://api.internal/", "api.internal:443"), ("/", "api.internal:443"), ("/", "localhost:80"),
                ("http://api.internal/", "api.internal"), ("/", "api.internal:80"), ("/", "localhost"),
                ("https://api.internal:80/", "api.internal"),
            ]:
                with connect() as client:
                    client.sendall(f"GET {target} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
                    print(response(client.makefile("rb"))[0], end=" ")
            """)
        #expect(output == "200 200 200 200 200 421 421 421 400 ")
    }

    @Test("64 MiB up and down: equal digests")
    func transfers() async throws {
        let output = try await bench.python(
            """
            size = 64 << 20
            block = bytes(range(251)) * 256
            body = (block * (size // len(block) + 1))[:size]
            expected = hashlib.sha256(body).hexdigest()
            with connect() as client, client.makefile("rb") as file:
                client.sendall(request("/", "PUT", f"Content-Length: {size}\\r\\n"))
                client.sendall(body)
                print(response(file)[2].decode() == expected)
                client.sendall(request(f"/size/{size}"))
                print(hashlib.sha256(response(file)[2]).hexdigest() == expected)
            """)
        #expect(output == "True\nTrue\n")
    }

    @Test("an upgraded connection: 8 MiB there and back")
    func upgrade() async throws {
        let output = try await bench.python(
            """
            with connect() as client, client.makefile("rb") as file:
                client.sendall(request("/", fields="Upgrade: websocket\\r\\nConnection: Upgrade\\r\\n"))
                print(response(file)[0])
                body = os.urandom(8 << 20)
                # One thread: Python 3.11 does not guard a connection against a read and a write at once.
                client.setblocking(False)
                sent, received = 0, bytearray()
                while len(received) < len(body):
                    wants = set()
                    try:
                        if sent < len(body): sent += client.send(body[sent:sent + 65536])
                    except ssl.SSLWantWriteError: wants.add("write")
                    except ssl.SSLWantReadError: wants.add("read")
                    try:
                        if not (part := client.recv(65536)): break
                        received += part
                        continue
                    except ssl.SSLWantReadError: wants.add("read")
                    except ssl.SSLWantWriteError: wants.add("write")
                    if "write" in wants or sent == len(body):
                        select.select([client] * ("read" in wants), [client] * ("write" in wants), [], 30)
                print(received == body)
            """)
        #expect(output == "101\nTrue\n")
    }

    @Test("sessions are resumed on every shard, over both versions", arguments: ["1.2", "1.3"])
    func resumption(_ version: String) async throws {
        let output = try await bench.python(
            """
            made, session = context(sys.argv[3]), None
            for _ in range(12):
                with connect(made, session=session) as client, client.makefile("rb") as file:
                    client.sendall(request("/"))
                    assert response(file)[0] == 200
                    print(client.session_reused, end=" ")
                    session = client.session
            """, [version])
        #expect(output.split(separator: " ").map(String.init) == ["False"] + [String](repeating: "True", count: 11))
        #expect(try await bench.handshakes()["resumed", default: 0] >= 11)
    }

    @Test("close_notify: ours ends a response, theirs a connection; without it a request is cut")
    func endings() async throws {
        let output = try await bench.python(
            """
            with connect(suppress_ragged_eofs=False) as client, client.makefile("rb") as file:
                client.sendall(request("/", fields="Connection: close\\r\\n"))
                print(*response(file)[::2])
                print(client.recv(1))
            client = connect()
            client.sendall(request("/"))
            print(response(client.makefile("rb"))[0])
            raw = client.unwrap()
            print(raw.recv(1))
            client = connect(context("1.2"))
            client.sendall(request("/", "PUT", "Content-Length: 10\\r\\nExpect: 100-continue\\r\\n"))
            # The upstream has the head.
            while client.recv(1) != b"C": pass
            client.recv(100)
            client.sendall(b"12345")
            client.shutdown(socket.SHUT_WR)
            try: print("rest", client.recv(4096))
            except ConnectionResetError: print("rest", b"")
            """)
        #expect(output == "200 b'ok'\nb''\n200\nb''\nrest b''\n")
    }

    @Test("plain HTTP gets a 400 that says so; TLS to a listener without it, too, with a reason of its own")
    func wrongProtocol() async throws {
        let (exit, output) = try await curl(["-w", " %{http_code}", "http://127.0.0.1:\(bench.port)/"])
        #expect(exit == .code(0))
        #expect(output.contains("use https") && output.hasSuffix(" 400"))
        #expect(try await bench.handshakes()["plain_http", default: 0] >= 1)
        let plain = try await LanyardProcess.start(before: "http://127.0.0.1:1")
        let client = try await Wire.connect(to: plain.data)
        try await client.send("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}")
        #expect(try Refusal.malformed.faults(of: try await client.response()) == [])
        #expect(try await client.rest().text == "")
        let dripping = try await Wire.connect(to: plain.data)
        try await dripping.drip("\u{16}\u{3}\u{1}")
        #expect(try await dripping.response().status == 400)
        #expect(try await dripping.rest().text == "")
        #expect(try await plain.rejections("tls") == 2)
        _ = try await plain.process.event("request.refused") { $0["cause"].string?.contains("it is TLS") == true }
    }

    @Test("old versions, foreign protocols, weak ciphers and garbage are refused, and the rest continues")
    func refusals() async throws {
        let before = try await bench.handshakes()
        let cases: [(arguments: [String], result: String)] = [
            (["-tls1", "-cipher", "ALL:@SECLEVEL=0"], "no_shared_version"),
            (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "no_shared_version"),
            (["-alpn", "spdy/3"], "no_shared_protocol"),
            (["-tls1_2", "-cipher", "AES128-GCM-SHA256"], "no_shared_cipher"),
        ]
        for (arguments, _) in cases {
            let client = try ServerProcess(
                "/usr/bin/openssl", ["s_client", "-connect", "127.0.0.1:\(bench.port)"] + arguments)
            #expect(try await client.waitForExit() != .code(0), "\(arguments)")
            #expect(client.log.contains("alert"), "\(arguments): \(client.log)")
        }
        for garbage in [
            "\u{16}\u{3}\u{1}\u{0}\u{2}AB", "\u{80}\u{2e}\u{1}\u{0}\u{2}", "0123456789",
            "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}",
        ] {
            let client = try await Wire.connect(to: bench.lanyard.data)
            try await client.send(garbage)
            client.halfClose()
            let rest = try await client.rest()
            #expect(rest.text.utf8.count <= 7 + 7, "no more than an alert")
        }
        let stopping = try await Wire.connect(to: bench.lanyard.data)
        try await stopping.send("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}")
        stopping.close()
        #expect(try await bench.python("print(ask('/')[0])") == "200\n")
        let after = try await bench.handshakes()
        for (_, result) in cases { #expect(after[result, default: 0] > before[result, default: 0], "\(result)") }
        _ = try await bench.lanyard.process.event("listener.tls.handshake_failed") {
            $0["reason"].string == "no_shared_version"
        }
    }

    @Test(
        "8 A client that stops in its handshake is closed after header_timeout, and so is one that sends nothing after it"
    )
    func stops() async throws {
        let bench = try await ListenerTLSBench.start(rest: "limits: {header_timeout: 1s}\n")
        let output = try await bench.python(
            """
            began = time.monotonic()
            silent = plain()
            hello = plain()
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            try: session.do_handshake()
            except ssl.SSLWantReadError: pass
            hello.sendall(outgoing.read())
            idle = connect()
            print(silent.recv(1), idle.recv(1))
            while hello.recv(65536): pass
            print(0.8 < time.monotonic() - began)
            """)
        #expect(output == "b'' b''\nTrue\n")
        #expect(try await bench.handshakes() == ["timed_out": 2, "completed": 1])
    }
}

extension LanyardProcess {
    /// Refused requests with this reason.
    fileprivate func rejections(_ reason: String) async throws -> Int {
        let page = try await RawClient.ask(health, "GET", "/metrics").body
        let samples = try ExpositionReader(page, openMetrics: false)
        return Int(samples["lanyard_rejected_requests_total", ["reason": reason]] ?? -1)
    }
}
