import CLinux
import COpenSSL
import Glibc
import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

/// Each cause of `TLSError`, provoked.
@Suite struct TLSFailureTests {
    private typealias Progress = TLSSession.Progress

    // MARK: The upstream's certificate

    @Test(
        "an upstream's certificate is refused with its reason, and the upstream gets an alert",
        arguments: TLSBench.versions)
    func upstreamCertificate(_ version: CInt) throws {
        let own = TLSBench.authority
        let pretender = TestAuthority("Pretender", under: own, isAuthority: false)
        let issued = pretender.issue()
        let cases: [(TestAuthority.Issued, TLSError)] = [
            (TestAuthority("Other").issue(), .unknownAuthority), (own.issue("DNS:other"), .nameMismatch),
            (own.issue(from: -7200, to: -3600), .expired), (own.issue(from: 3600), .notYetValid),
            (own.issue(purpose: "clientAuth"), .wrongPurpose),
            (
                .init(certificate: issued.certificate + pretender.pem, key: issued.key),
                .verificationFailed(X509_V_ERR_INVALID_CA)
            ),
        ]
        for (issued, error) in cases {
            let result = try TLSPair(TLSBench.client(version: version), TLSBench.server(issued)).shake()
            #expect(result.client == .failed(error))
            guard case .failed(let seen) = result.server else {
                Issue.record("no alert for \(error): \(result)")
                continue
            }
            switch seen {
            case .certificateRefused, .alert, .noSharedCipher: break
            default: Issue.record("\(seen) for \(error)")
            }
            #expect(error.isCertificate && error.message(.upstream).hasPrefix("the upstream's certificate"))
        }
    }

    // MARK: Client certificates

    @Test(
        "a listener refuses certificates with their reason, and the client reads it as an alert",
        arguments: TLSBench.versions)
    func clientCertificate(_ version: CInt) throws {
        let own = TLSBench.authority
        let cases: [(TestAuthority.Issued?, TLSError, TLSError)] = [
            (nil, .certificateMissing, .certificateRequired),
            (TestAuthority("Other").issue(), .unknownAuthority, .certificateRefused(alert: 48)),
            (own.issue(from: -7200, to: -3600), .expired, .certificateRefused(alert: 45)),
            (own.issue(purpose: "serverAuth"), .wrongPurpose, .certificateRefused(alert: 43)),
        ]
        for (issued, atServer, atClient) in cases {
            let pair = try TLSPair(
                TLSBench.client(showing: issued, version: version), TLSBench.server(demanding: own.pem))
            let result = pair.shake()
            #expect(result.server == .failed(atServer))
            // With TLS 1.3 a client is done before the listener has read its certificate.
            let seen = result.client == .done ? pair.client.receive().0 : .failed(pair.client.session.failure!)
            #expect(seen == .failed(atClient), "\(atServer)")
        }
    }

    // MARK: Nothing in common

    @Test("no version in common")
    func versions() throws {
        let result = try TLSPair(
            TLSBench.client(version: TLS1_2_VERSION), TLSBench.server(version: TLS1_3_VERSION)
        ).shake()
        #expect(result == (.failed(.noSharedVersion), .failed(.noSharedVersion)))
    }

    @Test("no cipher in common")
    func ciphers() throws {
        let (client, server) = (try TLSBench.client(version: TLS1_2_VERSION), try TLSBench.server())
        SSL_CTX_set_cipher_list(client.raw, "ECDHE-ECDSA-AES256-GCM-SHA384")
        SSL_CTX_set_cipher_list(server.raw, "ECDHE-ECDSA-AES128-GCM-SHA256")
        #expect(try TLSPair(client, server).shake() == (.failed(.noSharedCipher), .failed(.noSharedCipher)))
    }

    @Test("a client that offers no protocol of the listener is refused, one that offers nothing is not")
    func clientProtocols() throws {
        for http2 in [false, true] { try clientProtocols(http2: http2) }
    }

    private func clientProtocols(http2: Bool) throws {
        let client = try TLSBench.client()
        let server = try TLSBench.server(protocols: ListenerSettings.Protocols(http1: true, http2: http2))
        for (offer, isFine) in [("\u{2}h2", http2), ("\u{2}h2\u{8}http/1.1", true), ("\u{8}http/1.0", false)] {
            SSL_CTX_set_alpn_protos(client.raw, Array(offer.utf8), CUnsignedInt(offer.utf8.count))
            let result = try TLSPair(client, server).shake()
            let refused = Progress.failed(.noSharedProtocol)
            // As a client Lanyard speaks HTTP/1.1 alone.
            let agreesOnHTTP2 = http2 && offer.hasPrefix("\u{2}h2")
            #expect(result.server == (isFine ? .done : refused), "\(offer)")
            #expect(result.client == (isFine && !agreesOnHTTP2 ? .done : refused), "\(offer)")
        }
        SSL_CTX_set_alpn_protos(client.raw, nil, 0)
        #expect(try TLSPair(client, server).shake() == (.done, .done))
    }

    @Test("an upstream that chooses a protocol that was not offered is refused")
    func upstreamProtocol() throws {
        let server = try TLSBench.server()
        SSL_CTX_set_alpn_select_cb(
            server.raw,
            { _, selected, length, offered, _, _ in
                // The first letters of what is offered: no protocol of ours.
                selected?.pointee = offered! + 1
                length?.pointee = 4
                return SSL_TLSEXT_ERR_OK
            }, nil)
        // OpenSSL before 3.0.15 leaves this to the session.
        switch try TLSPair(TLSBench.client(), server).shake().client {
        case .failed(.noSharedProtocol), .failed(.protocolViolation): break
        case let other: Issue.record("\(other)")
        }
    }

    // MARK: Peers that do not speak TLS, or stop

    /// The outcome of a handshake with a peer that sends these bytes, whatever it gets.
    private func outcome(_ bytes: [UInt8], isServer: Bool, thenCloses: Bool = true) throws -> Progress {
        let workspace = TLSWorkspace()
        let (left, right) = try TLSPair.pair()
        let end = try TLSEnd(left, workspace) { descriptor, workspace in
            isServer
                ? try TLSSession(descriptor, of: TLSBench.server(), workspace: workspace)
                : try TLSSession(descriptor, to: TLSBench.client(), workspace: workspace)
        }
        _ = end.handshake()
        #expect(Glibc.send(right.raw, bytes, bytes.count, 0) == bytes.count)
        if thenCloses { shutdown(right.raw, CInt(SHUT_WR)) }
        return end.handshake()
    }

    @Test("HTTP without TLS is told as that, by a request's or a response's first bytes")
    func plainHTTP() throws {
        for request in ["GET / HTTP/1.1\r\n\r\n", "OPTIONS * HTTP/1.1\r\n", "PATCH /", "CONNECT a:1 ", "PROPFIND / "] {
            #expect(try outcome(Array(request.utf8), isServer: true) == .failed(.plainHTTP), "\(request)")
        }
        #expect(try outcome(Array("HTTP/1.1 400 Bad\r\n".utf8), isServer: false) == .failed(.plainHTTP))
        #expect(try outcome(Array("HTTP/".utf8), isServer: false, thenCloses: false) == .failed(.plainHTTP))
        #expect(try outcome(Array("SSH-2.0-OpenSSH\r\n".utf8), isServer: false) != .failed(.plainHTTP))
    }

    @Test("garbage, alerts and floods of warnings in place of a handshake", arguments: [true, false])
    func garbage(isServer: Bool) throws {
        for bytes in [[0xff, 0xfe, 1, 2, 3, 4, 5, 6], [0x16, 3, 1, 0, 4, 9, 9, 9, 9], [0x16, 3, 1, 0xff, 0xff, 1]] {
            let result = try outcome(bytes.map { UInt8($0) }, isServer: isServer)
            guard case .failed(.protocolViolation) = result else {
                Issue.record("\(result) for \(bytes)")
                continue
            }
        }
        // One byte more than a record may hold.
        let tooLong: [UInt8] = [0x16, 3, 1, 0x40, 1] + [UInt8](repeating: 2, count: 16_385)
        guard case .failed(.protocolViolation) = try outcome(tooLong, isServer: isServer) else {
            Issue.record("a record of 16 KiB and one byte is read")
            return
        }
        let internalError: [UInt8] = [0x15, 3, 3, 0, 2, 2, 80]
        #expect(try outcome(internalError, isServer: false) == .failed(.alert(80)))
        let warning: [UInt8] = [0x15, 3, 3, 0, 2, 1, 90]
        let flood = Array(repeatElement(warning, count: 40).joined())
        #expect(try outcome(flood, isServer: false) == .failed(.tooManyMessages))
    }

    /// A record with the header of a ClientHello that claims `count` bytes, and the first of them.
    private func hello(claiming count: Int) -> [UInt8] {
        record([1, UInt8(count >> 16), UInt8(count >> 8 & 0xff), UInt8(count & 0xff), 3, 3])
    }

    private func record(_ payload: [UInt8]) -> [UInt8] { [0x16, 3, 1, 0, UInt8(payload.count)] + payload }

    @Test("a hello of more than 16 KiB is refused by its header, whole or split over records")
    func longHello() throws {
        let largest = hello(claiming: 131_396)
        let split = largest.dropFirst(5).flatMap { record([$0]) }
        let behindWarning: [UInt8] = [0x15, 3, 1, 0, 2, 1, 90] + record([]) + largest
        for bytes in [largest, split, behindWarning, hello(claiming: 16_385)] {
            #expect(try outcome(bytes, isServer: true, thenCloses: false) == .failed(.helloTooLong), "\(bytes)")
        }
        #expect(try outcome(hello(claiming: 16_384), isServer: true, thenCloses: false) == .wouldBlock)
        // In pieces.
        let pair = try TLSPair(TLSBench.client(), TLSBench.server())
        for (index, byte) in largest[..<9].enumerated() {
            #expect(Glibc.send(pair.client.socket.raw, [byte], 1, 0) == 1)
            #expect(pair.server.handshake() == (index == 8 ? .failed(.helloTooLong) : .wouldBlock), "\(index)")
        }
        // The client reads why.
        #expect(pair.client.handshake() == .failed(.alert(47)))
    }

    @Test("the second hello of TLS 1.3 has the same limit, and so has one that comes with the first")
    func longSecondHello() throws {
        for comesWithFirst in [false, true] {
            let pair = try retryingPair()
            _ = pair.client.handshake()
            if !comesWithFirst { #expect(pair.server.handshake() == .wouldBlock) }
            let bytes = hello(claiming: 131_396)
            #expect(Glibc.send(pair.client.socket.raw, bytes, bytes.count, 0) == bytes.count)
            #expect(pair.server.handshake() == .failed(.helloTooLong))
        }
        try retryingPair().establish()
    }

    /// The client's first hello has a key of another group than the server's: it gets a HelloRetryRequest (RFC 8446 4.1.4).
    private func retryingPair() throws -> TLSPair {
        let (client, server) = (try TLSBench.client(version: TLS1_3_VERSION), try TLSBench.server())
        for (context, groups) in [(client.raw, "P-256:X25519"), (server.raw, "X25519")] {
            var text = Array(groups.utf8CString)
            #expect(SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, &text) == 1)
        }
        return try TLSPair(client, server)
    }

    @Test("a client's chain of more than 32 KiB is refused, and one of 24 KiB is not", arguments: TLSBench.versions)
    func longClientChain(_ version: CInt) throws {
        let issued = TLSBench.authority.issue(purpose: "clientAuth")
        let bytes = TLSBench.authority.pem.utf8.count * 3 / 4
        for (total, isFine) in [(24 << 10, true), (60 << 10, false)] {
            let chain = issued.certificate + String(repeating: TLSBench.authority.pem, count: total / bytes)
            let client = try TLSBench.client(
                showing: .init(certificate: chain, key: issued.key), version: version)
            let result = try TLSPair(client, TLSBench.server(demanding: TLSBench.authority.pem)).shake()
            if case .failed(.protocolViolation) = result.server {
                #expect(!isFine)
            } else {
                #expect(isFine && result.server == .done, "\(result)")
            }
        }
    }

    @Test("a peer that ends in the middle of the handshake", arguments: [true, false])
    func ends(isServer: Bool) throws {
        #expect(try outcome([], isServer: isServer) == .failed(.closedInHandshake))
        #expect(try outcome([0x16, 3, 1], isServer: isServer) == .failed(.closedInHandshake))
        #expect(try outcome([0x16, 3, 1, 2, 0, 1], isServer: isServer) == .failed(.closedInHandshake))
        #expect(try outcome([0x16, 3, 1, 2, 0, 1], isServer: isServer, thenCloses: false) == .wouldBlock)
    }

    @Test("a reset is told as that, in the handshake and later", arguments: [true, false])
    func resets(inHandshake: Bool) throws {
        let pair = try TLSPair(TLSBench.client(), TLSBench.server(), overTCP: true)
        if inHandshake { _ = pair.client.handshake() } else { try pair.establish() }
        Socket.setResetOnClose(pair.server.socket.raw)
        // The number stays open, so that the owner closes it: a connect to nowhere resets.
        var nowhere = sockaddr()
        _ = connect(pair.server.socket.raw, &nowhere, socklen_t(MemoryLayout<sockaddr>.size))
        let error = TLSError.reset(ECONNRESET)
        if inHandshake {
            #expect(pair.client.handshake() == .failed(error))
        } else {
            #expect(pair.client.receive().0 == .failed(error))
            #expect(pair.client.receive().0 == .failed(error))
            #expect(pair.client.session.failure == error)
            #expect(pair.client.send([1]) != 0)
        }
    }

    @Test(
        "an end without close_notify is a truncation, with or without a part of a record", arguments: TLSBench.versions)
    func truncation(_ version: CInt) throws {
        for cut in [0, 1, 5, 20] {
            let pair = try TLSPair(TLSBench.client(version: version), TLSBench.server())
            try pair.establish()
            #expect(try pair.transfer([1, 2, 3], from: pair.server, to: pair.client) == [1, 2, 3])
            let record: [UInt8] = [0x17, 3, 3, 0, 100] + [UInt8](repeating: 7, count: 100)
            _ = Glibc.send(pair.server.socket.raw, record, cut, 0)
            shutdown(pair.server.socket.raw, CInt(SHUT_WR))
            #expect(pair.client.receive().0 == .failed(.truncated))
            #expect(pair.client.session.hasPendingInput && pair.client.hasPendingInput())
        }
    }

    @Test("bytes that came before the end are read first")
    func bytesBeforeEnd() throws {
        let pair = try TLSPair(TLSBench.client(), TLSBench.server())
        try pair.establish()
        #expect(pair.server.send([1, 2, 3]) == 0)
        shutdown(pair.server.socket.raw, CInt(SHUT_WR))
        #expect(pair.client.receive() == (.bytes(3), [1, 2, 3]))
        #expect(pair.client.receive().0 == .failed(.truncated))
    }

    @Test("a record that was changed, repeated or left out ends the connection", arguments: TLSBench.versions)
    func changedRecords(_ version: CInt) throws {
        for change in ["bit", "again", "missing", "long", "longer"] {
            let pair = try TLSPair(TLSBench.client(version: version), TLSBench.server())
            try pair.establish()
            _ = try pair.transfer([1], from: pair.server, to: pair.client)
            #expect(pair.server.send([UInt8](repeating: 1, count: 100)) == 0)
            var record = [UInt8](repeating: 0, count: 1000)
            record.removeLast(1000 - recv(pair.client.socket.raw, &record, 1000, 0))
            switch change {
            case "bit": record[50] ^= 1
            case "again": record += record
            case "missing":
                #expect(pair.server.send([2]) == 0)
                var second = [UInt8](repeating: 0, count: 1000)
                second.removeLast(1000 - recv(pair.client.socket.raw, &second, 1000, 0))
                record = second
            // 16 KiB and all that encryption may add, and one byte more.
            case "long": record = [0x17, 3, 3, 0x48, 0] + [UInt8](repeating: 1, count: 0x4800)
            default: record = [0x17, 3, 3, 0x48, 1] + [UInt8](repeating: 1, count: 0x4801)
            }
            _ = Glibc.send(pair.server.socket.raw, record, record.count, 0)
            var (received, bytes) = pair.client.receive()
            if change == "again" {
                #expect(bytes.count == 100)
                (received, bytes) = pair.client.receive()
            }
            guard case .failed(.protocolViolation) = received else {
                Issue.record("\(change): \(received)")
                continue
            }
            // The peer learns it from an alert.
            guard case .failed(.alert) = pair.server.receive().0 else {
                Issue.record("\(change): no alert")
                continue
            }
        }
    }

    @Test("a flood of key updates ends the connection, and a few do not")
    func keyUpdates() throws {
        for (count, isFine) in [(5, true), (200, false)] {
            let pair = try TLSPair(TLSBench.client(version: TLS1_3_VERSION), TLSBench.server())
            try pair.establish()
            #expect(!pair.client.hasPendingInput())
            for _ in 0..<count {
                SSL_key_update(pair.server.session.ssl, SSL_KEY_UPDATE_NOT_REQUESTED)
                _ = pair.server.session.sendNothing(&pair.server.queue, &pair.server.canWrite)
                if pair.client.hasPendingInput() { break }
            }
            if isFine {
                #expect(try pair.transfer([1], from: pair.server, to: pair.client) == [1])
                #expect(try pair.transfer([1], from: pair.client, to: pair.server) == [1])
            } else {
                #expect(pair.client.session.failure == .tooManyMessages)
            }
        }
    }

    @Test("a flood of HelloRequests in place of the handshake ends the connection")
    func helloRequests() throws {
        let pair = try TLSPair(TLSBench.client(version: TLS1_2_VERSION), TLSBench.server())
        #expect(pair.client.handshake() == .wouldBlock)
        // 4095 messages without content, which OpenSSL ignores in a loop for as long as more come.
        let record: [UInt8] = [22, 3, 3, 0x3f, 0xfc] + [UInt8](repeating: 0, count: 4 * 4095)
        var rest = record[...]
        var progress = TLSSession.Progress.wouldBlock
        for _ in 0..<100 where progress == .wouldBlock {
            while true {
                let count = rest.withUnsafeBytes { Glibc.send(pair.server.socket.raw, $0.baseAddress, $0.count, 0) }
                guard count > 0 else { break }
                rest = rest.count == count ? record[...] : rest.dropFirst(count)
            }
            progress = pair.client.handshake()
        }
        #expect(progress == .failed(.tooManyMessages))
    }

    @Test("a client that renegotiates is refused, and the listener continues")
    func renegotiation() throws {
        let pair = try TLSPair(TLSBench.client(version: TLS1_2_VERSION), TLSBench.server())
        try pair.establish()
        SSL_clear_options(pair.client.session.ssl, 1 << 30)
        #expect(SSL_renegotiate(pair.client.session.ssl) == 1)
        _ = pair.client.session.sendNothing(&pair.client.queue, &pair.client.canWrite)
        #expect(pair.server.receive().0 == .wouldBlock)
        guard case .failed = pair.client.receive().0 else {
            Issue.record("renegotiation is accepted")
            return
        }
    }

    @Test("an upstream that asks to renegotiate is refused, and its end after that has a cause of its own")
    func renegotiationOfServer() throws {
        let pair = try TLSPair(TLSBench.client(version: TLS1_2_VERSION), TLSBench.server())
        try pair.establish()
        SSL_clear_options(pair.server.session.ssl, 1 << 30)
        #expect(SSL_renegotiate(pair.server.session.ssl) == 1)
        _ = lanyard_tls_handshake(pair.server.session.ssl)
        _ = pair.server.session.sendNothing(&pair.server.queue, &pair.server.canWrite)
        #expect(pair.client.receive().0 == .wouldBlock)
        #expect(pair.client.session.wasAskedToRenegotiate)
        #expect(pair.client.session.failure == nil)
        // OpenSSL's server ends the connection with an alert.
        _ = pair.server.receive()
        #expect(pair.client.receive().0 == .failed(.renegotiationRefused))
    }

    @Test("without a client certificate none can be asked for late")
    func noLateCertificate() throws {
        let pair = try TLSPair(TLSBench.client(), TLSBench.server(demanding: TLSBench.authority.pem))
        SSL_set_verify(pair.server.session.ssl, SSL_VERIFY_PEER | SSL_VERIFY_POST_HANDSHAKE, nil)
        try pair.establish()
        #expect(SSL_verify_client_post_handshake(pair.server.session.ssl) != 1)
    }

    @Test("each cause has a label of its own and a sentence for both sides")
    func texts() {
        let all: [TLSError] = [
            .unknownAuthority, .nameMismatch, .expired, .notYetValid, .wrongPurpose, .verificationFailed(23),
            .certificateMissing, .certificateRefused(alert: 48), .certificateRequired,
            .noSharedVersion, .noSharedCipher, .noSharedProtocol, .plainHTTP, .closedInHandshake, .truncated,
            .reset(104), .timedOut, .tooManyMessages, .renegotiationRefused, .helloTooLong, .tooManyHandshakes,
            .alert(80), .protocolViolation(0),
        ]
        #expect(Set(all.map(\.label)).count == all.count)
        for peer in [TLSError.Peer.upstream, .client] {
            #expect(Set(all.map { $0.message(peer) }).count == all.count)
            #expect(all.allSatisfy { $0.message(peer).contains("the \(peer.rawValue)") })
        }
        #expect(TLSError.verificationFailed(23).message(.upstream).hasSuffix("certificate revoked"))
        #expect(TLSError.certificateRefused(alert: 48).message(.upstream).contains("unknown CA"))
    }
}

extension TLSSession {
    /// Lets OpenSSL send what it has to send, without data.
    func sendNothing(_ queue: inout ByteQueue, _ canWrite: inout Bool) -> CInt {
        SSL_do_handshake(ssl)
        return deliver(&queue, &canWrite)
    }
}
