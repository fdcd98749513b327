import CNGHTTP2
import TestSupport

/// A client of HTTP/2 on a raw socket. The codec is the program's; what it is asked for is the test's, also what no honest client sends.
final class HTTP2Client {
    /// What has come on one stream.
    struct Response {
        /// Heads as text: interim ones, then the final one.
        var heads: [String] = []
        var body: [UInt8] = []
        var trailers: String?
        var hasEnded = false
        var resetCode: UInt32?

        var isOver: Bool { hasEnded || resetCode != nil }
        /// Of the latest head.
        var status: Int? { heads.last.flatMap { Int($0.dropFirst(9).prefix(3)) } }
        /// The value of the first such field of the final head.
        func field(_ name: String) -> String? {
            let lines = heads.last?.split(separator: "\r\n") ?? []
            return lines.first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.utf8.count + 2)) }
        }
    }

    /// A stream of the client's. The codec keeps its address.
    private final class Stream {
        var response = Response()
        let source = UnsafeMutablePointer<lanyard_h2_source>.allocate(capacity: 1)
        var bytes: [UnsafeMutableBufferPointer<UInt8>] = []

        init() { source.initialize(to: lanyard_h2_source()) }
        deinit {
            source.deallocate()
            for run in bytes { run.deallocate() }
        }
    }

    private let socket: RawSocket
    /// What must live as long as the client: a process ends with its last reference.
    private let kept: [AnyObject]
    private let raw: OpaquePointer
    private let codec: OpaquePointer
    private let workspace: OpaquePointer
    private var streams: [Int32: Stream] = [:]
    /// Each byte that has come.
    private(set) var received: [UInt8] = []

    /// The GOAWAYs that have come. By the bytes: behind the first one the codec reads no further ones.
    var goAways: [(last: UInt32, code: UInt32)] {
        func number(at place: Int) -> UInt32 { received[place..<place + 4].reduce(0) { $0 << 8 | UInt32($1) } }
        var found: [(last: UInt32, code: UInt32)] = []
        var place = 0
        while place + 9 <= received.count {
            let length = Int(number(at: place) >> 8)
            guard place + 9 + length <= received.count else { break }
            if received[place + 3] == 7, length >= 8 { found.append((number(at: place + 9), number(at: place + 13))) }
            place += 9 + length
        }
        return found
    }

    /// Sends the preface and SETTINGS.
    ///
    /// - Parameters:
    ///   - window: of each stream, in bytes.
    ///   - kept: lives as long as the client.
    init(_ socket: RawSocket, window: UInt32 = 65_535, keeping kept: [AnyObject] = []) throws {
        self.kept = kept
        var limits = lanyard_h2_limits()
        limits.stream_window = window
        limits.connection_window = 1 << 24
        limits.list_bytes_max = 1 << 20
        limits.list_fields_max = 1000
        guard let raw = lanyard_h2_new(&limits), let workspace = lanyard_h2_new_workspace() else {
            throw TestFailure("no memory for a session")
        }
        (self.socket, self.raw, self.workspace) = (socket, raw, workspace)
        codec = lanyard_h2_session(raw)
        try flush()
    }

    deinit {
        lanyard_h2_free(raw)
        lanyard_h2_free_workspace(workspace)
    }

    // MARK: Requests

    /// Sends a request.
    ///
    /// - Parameters:
    ///   - body: nil: none, and the stream ends with the head.
    ///   - ends: the stream ends with the body.
    ///   - bridged: what a CONNECT asks for (RFC 8441); nil: it is another request.
    /// - Returns: the stream's number.
    func request(
        _ method: String = "GET", _ path: String = "/", authority: String = "localhost",
        _ fields: [(String, String)] = [], body: [UInt8]? = nil, ends: Bool = true, to bridged: String? = nil
    ) throws -> Int32 {
        let pseudo =
            [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path)]
            + (bridged.map { [(":protocol", $0)] } ?? [])
        let stream = Stream()
        if let body { give(body, to: stream, ends: ends) }
        let owner = Unmanaged.passUnretained(stream).toOpaque()
        let number = withHTTP2Vectors(pseudo + fields) {
            lanyard_h2_submit_request(raw, $0.baseAddress, $0.count, body == nil ? nil : stream.source, owner)
        }
        guard number > 0 else { throw TestFailure("a request: nghttp2 \(number)") }
        streams[number] = stream
        try flush()
        return number
    }

    /// Sends an extended CONNECT for WebSocket, and bytes behind it.
    func tunnel(_ path: String, _ fields: [(String, String)] = [], bytes: [UInt8] = []) throws -> Int32 {
        try request(
            "CONNECT", path, [("sec-websocket-version", "13")] + fields, body: bytes, ends: false, to: "websocket")
    }

    /// The server has announced extended CONNECT.
    var mayConnect: Bool {
        nghttp2_session_get_remote_settings(codec, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1
    }

    /// Sends more of a body.
    func send(_ bytes: [UInt8], on number: Int32, ends: Bool) throws {
        guard let stream = streams[number] else { throw TestFailure("no stream \(number)") }
        give(bytes, to: stream, ends: ends)
        nghttp2_session_resume_data(codec, number)
        try flush()
    }

    /// Ends a body with trailers.
    func send(trailers: [(String, String)], on number: Int32) throws {
        guard let stream = streams[number] else { throw TestFailure("no stream \(number)") }
        stream.source.pointee.ends = 1
        stream.source.pointee.has_trailers = 1
        nghttp2_session_resume_data(codec, number)
        try flush()
        try read { stream.source.pointee.has_ended != 0 }
        let code = withHTTP2Vectors(trailers) { nghttp2_submit_trailer(codec, number, $0.baseAddress, $0.count) }
        guard code == 0 else { throw TestFailure("trailers: nghttp2 \(code)") }
        try flush()
    }

    func cancel(_ number: Int32) throws {
        nghttp2_submit_rst_stream(codec, 0, number, NGHTTP2_CANCEL.rawValue)
        try flush()
    }

    /// Sends bytes of the test's own.
    func send(raw bytes: [UInt8]) throws { try socket.send(bytes) }

    private func give(_ bytes: [UInt8], to stream: Stream, ends: Bool) {
        let run = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = run.initialize(from: bytes)
        stream.bytes.append(run)
        stream.source.pointee.first = run.baseAddress.map { UnsafePointer($0) }
        stream.source.pointee.first_count = bytes.count
        if ends { stream.source.pointee.ends = 1 }
    }

    private func flush() throws {
        let room = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 64 << 10)
        defer { room.deallocate() }
        while true {
            let count = lanyard_h2_produce(raw, room.baseAddress, room.count)
            guard count > 0 else { return }
            try socket.send(UnsafeBufferPointer(rebasing: room[0..<count]))
        }
    }

    // MARK: Responses

    /// Reads until the stream has ended or was reset.
    func response(_ number: Int32) throws -> Response {
        try read { self.streams[number]?.response.isOver ?? true }
        return streams[number]?.response ?? Response()
    }

    /// What has come of a response so far.
    func partial(_ number: Int32) -> Response { streams[number]?.response ?? Response() }

    /// Reads until something is true, or the connection ends.
    func read(until isReached: () -> Bool) throws {
        let patience = Patience()
        while !isReached() {
            let bytes = try socket.receive(with: patience)
            guard !bytes.isEmpty else { throw TestFailure("the connection ended; GOAWAY \(goAways)") }
            received += bytes
            try take(bytes)
        }
    }

    /// Reads to the end of the connection.
    func readToEnd() throws {
        let patience = Patience()
        while true {
            let bytes = try socket.receive(with: patience)
            guard !bytes.isEmpty else { return }
            received += bytes
            try take(bytes)
        }
    }

    private func take(_ bytes: [UInt8]) throws {
        let code = bytes.withUnsafeBufferPointer { lanyard_h2_receive(raw, workspace, $0.baseAddress, $0.count) }
        guard code == 0 else { throw TestFailure("what has come is no HTTP/2: nghttp2 \(code)") }
        var count = 0
        let events = UnsafeBufferPointer(start: lanyard_h2_events(workspace, &count), count: count)
        for event in events { take(event) }
        var closedCode: UInt32 = 0
        while let owner = lanyard_h2_take_closed(raw, &closedCode) {
            let stream = Unmanaged<Stream>.fromOpaque(owner).takeUnretainedValue()
            if closedCode != 0 || !stream.response.hasEnded { stream.response.resetCode = closedCode }
        }
        try flush()
    }

    private func take(_ event: lanyard_h2_event) {
        guard let owner = event.owner else { return }
        let stream = Unmanaged<Stream>.fromOpaque(owner).takeUnretainedValue()
        let bytes = UnsafeBufferPointer(start: event.bytes, count: event.count)
        switch event.kind {
        case LANYARD_H2_HEAD: stream.response.heads.append(String(decoding: bytes, as: UTF8.self))
        case LANYARD_H2_TRAILERS: stream.response.trailers = String(decoding: bytes, as: UTF8.self)
        case LANYARD_H2_DATA:
            stream.response.body += bytes
            nghttp2_session_consume(codec, event.stream, event.count)
        default: break
        }
        if event.flags & UInt32(LANYARD_H2_ENDS) != 0 { stream.response.hasEnded = true }
    }
}
