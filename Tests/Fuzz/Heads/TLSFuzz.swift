import CLinux
import Glibc
import LanyardRequestPath

/// Holds a TLS session to its promises under everything that a network or a hostile peer does to its ciphertext.
///
/// An input is a program of two bytes for each step: data is sent, ciphertext is torn, left out, repeated, swapped, changed or cut off.
/// Or it is what the peer sends in place of a handshake. What a session reads is always the beginning of what the
/// other has sent; it sees an end only after that other's `close_notify`; and once it has failed it stays so.
final class TLSFuzz: FuzzTarget {
    private let client: TLSClientContext
    private let server: TLSServerContext
    private let workspace = TLSWorkspace()
    private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    private let data = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)

    init() {
        let (chain, key) = (Array(Self.certificate.utf8), Array(Self.key.utf8))
        (client, server) = Self.made {
            try chain.withUnsafeBytes { chain in
                guard let name = TLSServerName(host: "localhost") else { fatalError("localhost is no name") }
                let authorities = try TLSAuthorities(chain)
                let pair = try key.withUnsafeBytes { try TLSKeyPair(chain: chain, key: $0) }
                return (
                    try TLSClientContext(verifying: name, authorities: authorities),
                    try TLSServerContext(pair, tickets: TLSTicketKeys())
                )
            }
        }
        for place in 0..<data.count { data[place] = UInt8(truncatingIfNeeded: place &* 31 &+ place >> 8) }
    }

    deinit {
        room.deallocate()
        data.deallocate()
    }

    func check(_ input: Bytes) throws(BrokenPromise) {
        guard let first = input.first else { return }
        let rest = input[run: 1..<input.count]
        switch first & 3 {
        case 0: try checkRaw(rest, isServer: first & 4 != 0)
        case 1: try checkHandshake(rest)
        default: try checkProgram(rest)
        }
    }

    // MARK: - A peer's bytes in place of a handshake

    private func checkRaw(_ bytes: Bytes, isServer: Bool) throws(BrokenPromise) {
        let (own, peer) = Self.sockets()
        let end = makeEnd(own, isServer: isServer)
        var cuts = FuzzCuts(bytes)
        var place = 0
        _ = end.handshake()
        while place < bytes.count {
            let next = cuts.end(from: place, of: bytes.count)
            place += Self.write(peer.raw, bytes[run: place..<next])
            try BrokenPromise.unless(end.handshake() != .done, "a handshake without keys is done")
            if end.session.failure != nil { break }
        }
        shutdown(peer.raw, CInt(SHUT_RDWR))
        let last = end.handshake()
        if case .failed = last {} else { throw BrokenPromise("a handshake goes on although the peer has ended") }
        try BrokenPromise.unless(end.handshake() == last, "a failed handshake fails otherwise")
        try BrokenPromise.unless(!end.session.canCarryData, "a failed handshake carries data")
    }

    // MARK: - A handshake whose bytes are torn, and changed at one place

    private func checkHandshake(_ input: Bytes) throws(BrokenPromise) {
        let link = makeLink()
        let change = input.count >= 4 ? Int(input[0]) << 8 | Int(input[1]) : -1
        var cuts = FuzzCuts(input)
        for _ in 0..<400 {
            _ = (link.client.handshake(), link.server.handshake())
            link.collect()
            if change >= 0, change % 4096 < link.toServer.carried + link.toServer.bytes.count,
                change % 4096 >= link.toServer.carried
            {
                link.toServer.bytes[change % 4096 - link.toServer.carried] ^= input[2] | 1
            }
            link.toServer.move(cuts.end(from: 0, of: link.toServer.bytes.count))
            link.toClient.move(cuts.end(from: 0, of: link.toClient.bytes.count))
        }
        guard link.client.session.canCarryData, link.server.session.canCarryData else { return }
        try read(link, max: 100)
        _ = link.send(100, data)
        link.collect()
        link.toClient.move(.max)
        try read(link, max: 100)
    }

    // MARK: - Records

    private func checkProgram(_ program: Bytes) throws(BrokenPromise) {
        let link = makeLink()
        for _ in 0..<20 where !link.client.session.canCarryData || !link.server.session.canCarryData {
            _ = (link.client.handshake(), link.server.handshake())
            link.collect()
            link.toServer.move(.max)
            link.toClient.move(.max)
        }
        try BrokenPromise.unless(
            link.client.session.canCarryData && link.server.session.canCarryData, "an undisturbed handshake fails")
        var place = 0
        while place + 1 < program.count {
            try perform(program[place] % 12, Int(program[place + 1]), link)
            place += 2
        }
        link.toClient.move(.max)
        link.toClient.close()
        // Reading ends: in an end, or in an error that stays.
        for _ in 0..<64 { try read(link, max: 64 << 10) }
        try BrokenPromise.unless(link.last != .wouldBlock, "reading goes on although the peer has ended")
        let last = link.last
        try read(link, max: 1)
        try BrokenPromise.unless(link.last == last, "an end or an error did not stay")
        if last == .end {
            try BrokenPromise.unless(link.hasSentClose, "an end that the other has not sent")
            try BrokenPromise.unless(link.read == link.sent, "an end before all bytes have been read")
        }
    }

    private func perform(_ step: UInt8, _ argument: Int, _ link: FuzzLink) throws(BrokenPromise) {
        switch step {
        case 0, 1: _ = link.send(step == 0 ? argument : argument * 150, data)
        case 2: link.toClient.move(argument)
        case 3: link.toClient.move(.max)
        case 4: link.damage { $0.removeRecord() }
        case 5: link.damage { $0.swapRecords() }
        case 6: link.damage { $0.repeatRecord() }
        case 7: link.damage { $0.change(at: argument) }
        case 8: link.damage { $0.cut(argument) }
        case 9: link.closeNotify()
        case 10: try read(link, max: max(argument, 1))
        default: try idle(link)
        }
        link.collect()
    }

    private func read(_ link: FuzzLink, max: Int) throws(BrokenPromise) {
        let received = link.client.receive(UnsafeMutableRawBufferPointer(rebasing: room[..<max]))
        guard case .bytes(let count) = received else {
            link.last = received
            return
        }
        try BrokenPromise.unless(link.last == .wouldBlock, "bytes behind an end or an error")
        try BrokenPromise.unless(count > 0 && count <= max, "more bytes than there is room for")
        try BrokenPromise.unless(link.read + count <= link.sent, "bytes that were never sent")
        for place in 0..<count {
            try BrokenPromise.unless(room[place] == data[(link.read + place) % data.count], "bytes are others")
        }
        link.read += count
    }

    private func idle(_ link: FuzzLink) throws(BrokenPromise) {
        let hasPendingInput = link.client.hasPendingInput()
        try BrokenPromise.unless(
            hasPendingInput || link.last == .wouldBlock, "a session that has ended counts as usable")
    }

    // MARK: - Making

    /// What the head itself needs. Without it no input says anything, so its error ends the run and is told.
    private static func made<Value>(_ make: () throws -> Value) -> Value {
        do { return try make() } catch { fatalError("the fuzz head of TLS cannot begin: \(error)") }
    }

    private func makeEnd(_ socket: FuzzSocket, isServer: Bool) -> FuzzEnd {
        let session = Self.made {
            isServer
                ? try TLSSession(socket.raw, of: server, workspace: workspace)
                : try TLSSession(socket.raw, to: client, workspace: workspace)
        }
        return FuzzEnd(session, socket)
    }

    private func makeLink() -> FuzzLink {
        let (left, right) = (Self.sockets(), Self.sockets())
        return FuzzLink(
            makeEnd(left.0, isServer: false), makeEnd(right.0, isServer: true), left.1, right.1)
    }

    private static func sockets() -> (FuzzSocket, FuzzSocket) {
        var ends: [CInt] = [0, 0]
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { fatalError("no socket pair: errno \(errno)") }
        return (FuzzSocket(taking: ends[0]), FuzzSocket(taking: ends[1]))
    }

    static func write(_ descriptor: CInt, _ bytes: Bytes) -> Int {
        guard bytes.count > 0 else { return 0 }
        return max(send(descriptor, bytes.baseAddress, bytes.count, CInt(MSG_NOSIGNAL)), 0)
    }

    /// For `localhost`, its own authority, good until 2126. The key is in this file: it protects nothing.
    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBlTCCATugAwIBAgIUcbjfZA37Xnn60/GrKX92WlJ9hF0wCgYIKoZIzj0EAwIw
        FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMzA0NTQxMFoYDzIxMjYxMDMw
        MDQ1NDEwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
        PQMBBwNCAATinp2/TZISXMdq2VES/jsJacgt9AZrFwBMSLB8ccmeHbivjI0dBELE
        dWqdO9qGCvZuEsWHSczUPwWQsy85U3xuo2kwZzAdBgNVHQ4EFgQUySL1vqXYgYBD
        WebGHYj4bLFcCV0wHwYDVR0jBBgwFoAUySL1vqXYgYBDWebGHYj4bLFcCV0wDwYD
        VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
        SAAwRQIhAPoAtCDPMYUk6z6262nUpVBj4la+6maqgoReSIlf0b5KAiBPM7JK0VB6
        /9deG4avCAchYTTrr7aTjmntaswt6MBcAg==
        -----END CERTIFICATE-----
        """
    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+n6MnVqJ7qGCf+M7
        7Ski3kOTknQYq8cfW4QG/Pt7DzehRANCAATinp2/TZISXMdq2VES/jsJacgt9AZr
        FwBMSLB8ccmeHbivjI0dBELEdWqdO9qGCvZuEsWHSczUPwWQsy85U3xu
        -----END PRIVATE KEY-----
        """
}

/// A socket's descriptor. A class, because tuples hold copies only.
private final class FuzzSocket {
    let raw: CInt

    init(taking raw: CInt) { self.raw = raw }

    deinit { close(raw) }
}

/// A session with its socket and its queue.
private final class FuzzEnd {
    let session: TLSSession
    private let socket: FuzzSocket
    private var queue = ByteQueue()
    private var canWrite = true

    init(_ session: TLSSession, _ socket: FuzzSocket) {
        self.session = session
        self.socket = socket
    }

    func handshake() -> TLSSession.Progress {
        poll()
        return session.handshake(queue: &queue, canWrite: &canWrite)
    }

    func receive(_ room: UnsafeMutableRawBufferPointer) -> TLSSession.Received {
        poll()
        return session.receive(into: room, queue: &queue, canWrite: &canWrite)
    }

    func hasPendingInput() -> Bool {
        poll()
        return session.processIdleInput(queue: &queue, canWrite: &canWrite)
    }

    func send(_ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer) -> CInt {
        session.send(head, body, "", queue: &queue, canWrite: &canWrite)
    }

    func closeNotify() { _ = session.closeNotify(queue: &queue, canWrite: &canWrite) }

    /// As epoll does it: everything may be possible again.
    func poll() {
        session.noteReadable(hasEnded: false)
        canWrite = true
        while !queue.isEmpty, canWrite {
            let count = Glibc.send(socket.raw, queue.bytes.baseAddress, queue.count, CInt(MSG_NOSIGNAL))
            if count > 0 { queue.consume(count) } else { canWrite = false }
        }
    }
}

/// Ciphertext on its way in one direction.
private final class FuzzChannel {
    var bytes: [UInt8] = []
    /// Bytes that have been passed on.
    private(set) var carried = 0
    private let to: CInt

    init(to descriptor: CInt) { to = descriptor }

    /// Passes bytes on.
    func move(_ amount: Int) {
        let count = bytes.withUnsafeBufferPointer { TLSFuzz.write(to, Bytes(rebasing: $0.prefix(max(amount, 0)))) }
        bytes.removeFirst(count)
        carried += count
    }

    func close() { shutdown(to, CInt(SHUT_WR)) }

    /// The end of the record that begins here; nil: it is not whole.
    private func recordEnd(_ start: Int) -> Int? {
        guard bytes.count - start >= 5 else { return nil }
        let end = start + 5 + Int(bytes[start + 3]) << 8 + Int(bytes[start + 4])
        return end <= bytes.count ? end : nil
    }

    func removeRecord() {
        guard let end = recordEnd(0) else { return }
        bytes.removeFirst(end)
    }

    func swapRecords() {
        guard let first = recordEnd(0), let second = recordEnd(first) else { return }
        bytes.replaceSubrange(..<second, with: bytes[first..<second] + bytes[..<first])
    }

    func repeatRecord() {
        guard let end = recordEnd(0) else { return }
        bytes.insert(contentsOf: bytes[..<end], at: end)
    }

    func change(at place: Int) {
        guard place < bytes.count else { return }
        bytes[place] ^= 0x41
    }

    func cut(_ count: Int) {
        guard count < bytes.count else { return }
        bytes.removeLast(bytes.count - count)
    }
}

/// A client's and a listener's end, and the ciphertext between them.
private final class FuzzLink {
    let client: FuzzEnd
    let server: FuzzEnd
    let toClient: FuzzChannel
    let toServer: FuzzChannel
    private let sockets: (client: FuzzSocket, server: FuzzSocket)
    /// Bytes of data that the server has sent and the client has read.
    var sent = 0
    var read = 0
    /// What the client's last read has said, if it was not bytes.
    var last = TLSSession.Received.wouldBlock
    private(set) var hasSentClose = false

    init(
        _ client: FuzzEnd, _ server: FuzzEnd, _ clientSocket: FuzzSocket,
        _ serverSocket: FuzzSocket
    ) {
        self.client = client
        self.server = server
        toClient = FuzzChannel(to: clientSocket.raw)
        toServer = FuzzChannel(to: serverSocket.raw)
        sockets = (clientSocket, serverSocket)
    }

    /// Takes what both ends have sent.
    func collect() {
        Self.take(sockets.client.raw, into: toServer)
        Self.take(sockets.server.raw, into: toClient)
    }

    private static func take(_ descriptor: CInt, into channel: FuzzChannel) {
        withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 1) { room in
            while true {
                let count = recv(descriptor, room.baseAddress, room.count, 0)
                guard count > 0 else { return }
                channel.bytes += room[..<count]
            }
        }
    }

    func send(_ count: Int, _ data: UnsafeMutableRawBufferPointer) -> CInt {
        guard !hasSentClose else { return 0 }
        let start = sent % data.count
        let first = min(count, data.count - start)
        let code = server.send(
            UnsafeRawBufferPointer(rebasing: data[start..<(start + first)]),
            UnsafeRawBufferPointer(rebasing: data[..<(count - first)]))
        if code == 0 { sent += count }
        return code
    }

    func closeNotify() {
        server.closeNotify()
        hasSentClose = true
    }

    /// Changes the ciphertext that waits for the client.
    func damage(_ work: (FuzzChannel) -> Void) {
        work(toClient)
    }
}
