import Glibc
import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

/// Each end against implementations of others: Python's `ssl`, `openssl s_server` and `openssl s_client`.
@Suite struct TLSPeerTests {
    /// A folder with `ca.pem`, `leaf.pem` and `leaf.key`.
    private static func folder(_ issued: TestAuthority.Issued = TLSBench.authority.issue()) throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try folder.write("ca.pem", TLSBench.authority.pem)
        try folder.write("leaf.pem", issued.certificate)
        try folder.write("leaf.key", issued.key)
        return folder
    }

    private static func number(in text: String) -> UInt16? {
        text.split(whereSeparator: { !$0.isNumber }).last.flatMap { UInt16($0) }
    }

    // MARK: Their servers

    /// Responds to one line with facts and 200,000 bytes, and ends properly or not.
    private static let pythonServer = """
        import socket, ssl, sys
        folder, mode = sys.argv[1:3]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder + "/leaf.pem", folder + "/leaf.key")
        context.set_alpn_protocols(["h2", "http/1.1"])
        if "1.2" in mode: context.maximum_version = ssl.TLSVersion.TLSv1_2
        if "demand" in mode:
            context.load_verify_locations(folder + "/ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        while True:
            raw, _ = listener.accept()
            try:
                tls = context.wrap_socket(raw, server_side=True)
                line = tls.recv(100000)
                facts = [tls.version(), str(tls.session_reused), str(tls.selected_alpn_protocol()), str(len(line))]
                tls.sendall(" ".join(facts).encode() + b"\\n" + b"x" * 200000)
                if "truncate" in mode: socket.socket(fileno=tls.detach()).close()
                else: tls.unwrap().close()
            except OSError: pass
        """

    private static func pythonServer(_ folder: TemporaryFolder, _ mode: String) async throws -> (ServerProcess, UInt16)
    {
        let process = try ServerProcess("/usr/bin/python3", ["-c", pythonServer, folder.path, mode])
        try await eventually("Python listens: \(process.log)") { process.output.contains("\n") }
        return (process, try #require(number(in: process.output)))
    }

    private static func connect(_ port: UInt16, _ context: TLSClientContext, _ workspace: TLSWorkspace) throws -> TLSEnd
    {
        try TLSEnd(TLSPair.connect(to: port), workspace) { try TLSSession($0, to: context, workspace: $1) }
    }

    @Test("Python's server: data, an end and a resumed session", arguments: ["1.2", "1.3"])
    func pythonResumes(_ version: String) async throws {
        let folder = try Self.folder()
        let (process, port) = try await Self.pythonServer(folder, version)
        do {
            let (context, workspace) = (try TLSBench.client(), TLSWorkspace())
            for isResumed in [false, true, true] {
                let end = try Self.connect(port, context, workspace)
                try end.establish()
                #expect(end.session.isResumed == isResumed)
                #expect(end.send(Array("GET\n".utf8)) == 0)
                let (text, last) = try end.readToEnd()
                #expect(text.hasPrefix("TLSv\(version) \(isResumed ? "True" : "False") http/1.1 4\n"))
                #expect(text.utf8.count > 200_000 && last == .end)
                #expect(end.closeNotify() == 0)
            }
        }
        withExtendedLifetime(process) {}
    }

    @Test("Python's server that closes without close_notify: a truncation", arguments: ["1.2", "1.3"])
    func pythonTruncates(_ version: String) async throws {
        let folder = try Self.folder()
        let (process, port) = try await Self.pythonServer(folder, version + "truncate")
        do {
            let end = try Self.connect(port, TLSBench.client(), TLSWorkspace())
            try end.establish()
            #expect(end.send(Array("GET\n".utf8)) == 0)
            let (text, last) = try end.readToEnd()
            #expect(text.utf8.count > 200_000 && last == .failed(.truncated))
        }
        withExtendedLifetime(process) {}
    }

    @Test("Python's server that demands a certificate takes the right one and says what it lacks")
    func pythonDemands() async throws {
        let folder = try Self.folder()
        let (process, port) = try await Self.pythonServer(folder, "demand")
        do {
            let cases: [(TestAuthority.Issued?, TLSSession.Received)] = [
                (TLSBench.authority.issue(purpose: "clientAuth"), .end), (nil, .failed(.certificateRequired)),
                (TestAuthority("Other").issue(), .failed(.certificateRefused(alert: 48))),
            ]
            for (issued, expected) in cases {
                let end = try Self.connect(port, TLSBench.client(showing: issued), TLSWorkspace())
                try end.establish()
                _ = end.send(Array("GET\n".utf8))
                #expect(try end.readToEnd().1 == expected)
                _ = end.closeNotify()
            }
        }
        withExtendedLifetime(process) {}
    }

    @Test("a server of TLS 1.0 or 1.1 has no version in common", arguments: ["-tls1", "-tls1_1"])
    func oldServer(_ version: String) async throws {
        let folder = try Self.folder()
        let process = try ServerProcess(
            "/usr/bin/openssl",
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", folder.file("leaf.pem"), "-key", folder.file("leaf.key"),
                version, "-cipher", "ALL:@SECLEVEL=0", "-WWW",
            ])
        try await eventually("s_server listens: \(process.log)") { process.output.contains("ACCEPT ") }
        let port = try #require(Self.number(in: process.output))
        let end = try Self.connect(port, TLSBench.client(), TLSWorkspace())
        #expect(throws: TLSError.noSharedVersion) { try end.establish() }
    }

    // MARK: Their clients

    /// Serves one connection after the other: reads a line, sends 200,000 bytes and the line, ends properly.
    private static func serve(_ listener: RawSocket, _ context: TLSServerContext, count: Int) throws -> [TLSError?] {
        let workspace = TLSWorkspace()
        return try (0..<count).map { _ in
            guard let socket = listener.accept() else { throw TestFailure("no connection") }
            let end = try TLSEnd(TestSocket(socket), workspace) {
                try TLSSession($0, of: context, workspace: $1)
            }
            do {
                try end.establish()
                let line = try end.readLine()
                guard end.send([UInt8](repeating: 120, count: 200_000), line) == 0 else { return end.session.failure }
                guard end.closeNotify() == 0 else { return end.session.failure }
                try end.sendAll()
                _ = try end.readToEnd()
                return nil
            } catch let error as TLSError { return error }
        }
    }

    private static let pythonClient = """
        import socket, ssl, sys
        folder, mode, port = sys.argv[1:4]
        context = ssl.create_default_context(cafile=folder + "/ca.pem")
        if "1.2" in mode: context.maximum_version = ssl.TLSVersion.TLSv1_2
        if "certificate" in mode: context.load_cert_chain(folder + "/leaf.pem", folder + "/leaf.key")
        context.set_alpn_protocols(["http/1.1"])
        session = None
        for _ in range(3):
            raw = socket.create_connection(("127.0.0.1", int(port)))
            tls = context.wrap_socket(raw, server_hostname="localhost", session=session)
            tls.sendall(b"hello\\n")
            count = 0
            while part := tls.recv(65536): count += len(part)
            session = tls.session
            print(tls.version(), tls.session_reused, tls.selected_alpn_protocol(), count, flush=True)
            tls.unwrap().close()
        """

    @Test(
        "Python's client: data, an end and a resumed session",
        arguments: ["1.2", "1.3", "1.2certificate", "1.3certificate"])
    func pythonClient(_ mode: String) async throws {
        let folder = try Self.folder()
        let listener = try RawSocket.listen(at: .tcp(0))
        let client = try ServerProcess(
            "/usr/bin/python3", ["-c", Self.pythonClient, folder.path, mode, "\(listener.localPort)"])
        let demanded = mode.contains("certificate") ? TLSBench.authority.pem : nil
        let results = try Self.serve(listener, TLSBench.server(demanding: demanded, names: ["localhost"]), count: 3)
        #expect(results == [nil, nil, nil])
        #expect(try await client.waitForExit() == .code(0), "\(client.log)")
        let version = "TLSv" + mode.prefix(3)
        let expected = ["False", "True", "True"].map { "\(version) \($0) http/1.1 200006" }
        #expect(client.output.split(separator: "\n").map(String.init) == expected)
    }

    @Test("openssl s_client: a chain that is verified, h2 alone and old versions refused")
    func opensslClient() async throws {
        let folder = try Self.folder()
        let listener = try RawSocket.listen(at: .tcp(0))
        let cases: [([String], TLSError?)] = [
            (["-servername", "localhost", "-verify_return_error", "-verify_hostname", "localhost"], .truncated),
            (["-alpn", "h2"], .noSharedProtocol), (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], .noSharedVersion),
            (["-tls1", "-cipher", "ALL:@SECLEVEL=0"], .noSharedVersion),
            (["-tls1_2", "-cipher", "AES128-GCM-SHA256"], .noSharedCipher),
            (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"], .noSharedCipher),
        ]
        for (arguments, expected) in cases {
            let fixed = ["s_client", "-connect", "127.0.0.1:\(listener.localPort)", "-CAfile", folder.file("ca.pem")]
            let client = try ServerProcess("/usr/bin/openssl", fixed + arguments)
            let http1 = ListenerSettings.Protocols(http1: true, http2: false)
            let result = try Self.serve(listener, TLSBench.server(protocols: http1), count: 1)[0]
            // Its input ends at once: it closes after the handshake, with a close_notify or without.
            let isFine = expected == .truncated
            #expect(isFine ? result == nil || result == .truncated || result == .reset(ECONNRESET) : result == expected)
            #expect(try await (client.waitForExit() == .code(0)) == isFine, "\(arguments): \(client.log)")
            if isFine { #expect(client.output.contains("Verification: OK")) }
        }
    }
}

extension TLSEnd {
    /// Shakes hands over a socket whose other end is another thread or process.
    func establish() throws {
        try blockUntil("the handshake is done") {
            switch handshake() {
            case .done: true
            case .wouldBlock: false
            case .failed(let error): throw error
            }
        }
    }

    /// Reads until a line feed. An end before it is a truncation.
    func readLine() throws -> [UInt8] {
        var line: [UInt8] = []
        try blockUntil("a line comes") {
            let (received, bytes) = receive()
            line += bytes
            switch received {
            case .bytes: return line.last == 10
            case .wouldBlock: return false
            case .end: throw TLSError.truncated
            case .failed(let error): throw error
            }
        }
        return line
    }

    /// Reads until the end, and says how it ended.
    func readToEnd() throws -> (String, TLSSession.Received) {
        var all: [UInt8] = []
        var last = TLSSession.Received.wouldBlock
        try blockUntil("the end comes") {
            repeat {
                let (received, bytes) = receive()
                all += bytes
                last = received
            } while last == .bytes(1 << 16)
            if case .bytes = last { return false }
            return last != .wouldBlock
        }
        return (String(decoding: all, as: UTF8.self), last)
    }

    /// Sends what waits.
    func sendAll() throws {
        try blockUntil("all is sent") {
            let code = poll()
            guard code == 0 else { throw TLSError.reset(code) }
            return queue.isEmpty
        }
    }
}
