import CNGHTTP2
import LanyardFoundations
import TestSupport

/// An upstream that speaks HTTP/2 by prior knowledge. The codec is the program's; what is responded is the test's.
final class HTTP2Upstream: Sendable {
    /// A request that has come whole.
    struct Request: Sendable {
        /// Counted from 0 over the server's life.
        let connection: Int
        let stream: Int32
        /// Its head as text.
        let head: String
        let body: [UInt8]
        let trailers: String?

        /// The values of the fields of that name.
        func values(_ name: String) -> [String] {
            head.split(separator: "\r\n").dropFirst().filter { $0.hasPrefix("\(name): ") }
                .map { String($0.dropFirst(name.utf8.count + 2)) }
        }
    }

    enum Reply: Sendable {
        case response(
            Int, [(String, String)] = [], body: [UInt8] = Array("ok".utf8), trailers: [(String, String)]? = nil)
        /// A head that ends the stream.
        case head(Int, [(String, String)])
        case reset(UInt32)
        /// A GOAWAY that says that only streams up to the number are processed.
        case goAway(last: Int32)
        case close
        case none
    }

    typealias Script = @Sendable (Request) -> Reply

    /// What has come, of all connections.
    struct Record: Sendable {
        var requests: [Request] = []
        var connections = 0
        /// Raw bytes, by connection.
        var bytes: [[UInt8]] = []
        /// Streams that the client has reset, with the code.
        var resets: [UInt32] = []
    }

    let endpoint: RawEndpoint
    private let listener: RawSocket
    private let core: Core

    init(streamsMax: UInt32 = 100, _ script: @escaping Script = { _ in .response(200) }) throws {
        listener = try RawSocket.listen(at: .tcp(0))
        endpoint = .tcp(listener.localPort)
        core = Core(streamsMax: streamsMax, script)
        let (core, listener) = (core, listener)
        core.threads.start { core.acceptAll(from: listener) }
    }

    deinit {
        listener.close()
        core.close()
    }

    var record: Record { core.record.withLock { $0 } }
    var requests: [Request] { record.requests }

    private final class Core: Sendable {
        let streamsMax: UInt32
        let script: Script
        let record = Guarded(Record())
        let live = Guarded<[RawSocket]>([])
        let threads = PeerThreads()

        init(streamsMax: UInt32, _ script: @escaping Script) { (self.streamsMax, self.script) = (streamsMax, script) }

        func close() { live.withLock { $0 }.forEach { $0.close() } }

        func acceptAll(from listener: RawSocket) {
            while let socket = listener.accept(with: nil) {
                live.withLock { $0.append(socket) }
                let number = record.withLock { record -> Int in
                    record.connections += 1
                    record.bytes.append([])
                    return record.connections - 1
                }
                threads.start {
                    HTTP2UpstreamConnection(socket, number, streamsMax: self.streamsMax)?.serve(
                        self.script, self.record)
                    socket.close()
                }
            }
        }
    }
}

/// One connection. Its thread has all of it.
private final class HTTP2UpstreamConnection {
    private final class Stream {
        var head = ""
        var body: [UInt8] = []
        var trailers: String?
        let source = UnsafeMutablePointer<lanyard_h2_source>.allocate(capacity: 1)
        var sent: UnsafeMutableBufferPointer<UInt8>?
        var sentTrailers: [(String, String)]?

        init() { source.initialize(to: lanyard_h2_source()) }
        deinit {
            source.deallocate()
            sent?.deallocate()
        }
    }

    private let socket: RawSocket
    private let number: Int
    private let raw: OpaquePointer
    private let codec: OpaquePointer
    private let workspace: OpaquePointer
    private var streams: [Int32: Stream] = [:]
    private var script: HTTP2Upstream.Script = { _ in .none }

    init?(_ socket: RawSocket, _ number: Int, streamsMax: UInt32) {
        var limits = lanyard_h2_limits()
        limits.is_server = 1
        limits.streams_max = streamsMax
        limits.stream_window = 1 << 20
        limits.connection_window = 1 << 24
        limits.list_bytes_max = 1 << 16
        limits.list_fields_max = 1000
        guard let raw = lanyard_h2_new(&limits), let workspace = lanyard_h2_new_workspace() else { return nil }
        (self.socket, self.number, self.raw, self.workspace) = (socket, number, raw, workspace)
        codec = lanyard_h2_session(raw)
    }

    deinit {
        lanyard_h2_free(raw)
        lanyard_h2_free_workspace(workspace)
    }

    func serve(_ script: @escaping HTTP2Upstream.Script, _ record: borrowing Guarded<HTTP2Upstream.Record>) {
        self.script = script
        while let bytes = try? socket.receive(with: nil), !bytes.isEmpty {
            record.withLock { $0.bytes[number] += bytes }
            let code = bytes.withUnsafeBufferPointer { lanyard_h2_receive(raw, workspace, $0.baseAddress, $0.count) }
            guard code == 0 else { return }
            var count = 0
            let events = UnsafeMutableBufferPointer(start: lanyard_h2_events(workspace, &count), count: count)
            var continues = true
            for event in events { if !take(event, record) { continues = false } }
            var closedCode: UInt32 = 0
            while let owner = lanyard_h2_take_closed(raw, &closedCode) {
                let stream = Unmanaged<Stream>.fromOpaque(owner).takeUnretainedValue()
                if closedCode != 0 { record.withLock { $0.resets.append(closedCode) } }
                streams = streams.filter { $0.value !== stream }
            }
            guard flush(), continues else { return }
        }
    }

    private func take(_ event: lanyard_h2_event, _ record: borrowing Guarded<HTTP2Upstream.Record>) -> Bool {
        let bytes = UnsafeBufferPointer(start: event.bytes, count: event.count)
        switch event.kind {
        case LANYARD_H2_HEAD:
            let stream = Stream()
            stream.head = String(decoding: bytes, as: UTF8.self)
            streams[event.stream] = stream
            lanyard_h2_adopt(raw, event.stream, Unmanaged.passUnretained(stream).toOpaque())
        case LANYARD_H2_TRAILERS: streams[event.stream]?.trailers = String(decoding: bytes, as: UTF8.self)
        case LANYARD_H2_DATA:
            streams[event.stream]?.body += bytes
            nghttp2_session_consume(codec, event.stream, event.count)
        default: break
        }
        guard event.flags & UInt32(LANYARD_H2_ENDS) != 0, let stream = streams[event.stream] else { return true }
        let request = HTTP2Upstream.Request(
            connection: number, stream: event.stream, head: stream.head, body: stream.body, trailers: stream.trailers)
        record.withLock { $0.requests.append(request) }
        return reply(script(request), on: event.stream, stream)
    }

    private func reply(_ reply: HTTP2Upstream.Reply, on number: Int32, _ stream: Stream) -> Bool {
        switch reply {
        case .response(let status, let fields, let body, let trailers):
            let run = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(body.count, 1))
            _ = run.initialize(from: body)
            stream.sent = run
            stream.source.pointee.first = run.baseAddress.map { UnsafePointer($0) }
            stream.source.pointee.first_count = body.count
            stream.source.pointee.ends = 1
            stream.sentTrailers = trailers
            if trailers != nil { stream.source.pointee.has_trailers = 1 }
            submit(status, fields, on: number, stream.source)
        case .head(let status, let fields): submit(status, fields, on: number, nil)
        case .reset(let code): nghttp2_submit_rst_stream(codec, 0, number, code)
        case .goAway(let last): nghttp2_submit_goaway(codec, 0, last, 0, nil, 0)
        case .close: return false
        case .none: break
        }
        return true
    }

    private func submit(
        _ status: Int, _ fields: [(String, String)], on number: Int32,
        _ source: UnsafeMutablePointer<lanyard_h2_source>?
    ) {
        withHTTP2Vectors([(":status", "\(status)")] + fields) {
            _ = lanyard_h2_submit_response(raw, number, $0.baseAddress, $0.count, source)
        }
    }

    private func flush() -> Bool {
        let room = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 64 << 10)
        defer { room.deallocate() }
        while true {
            let count = lanyard_h2_produce(raw, room.baseAddress, room.count)
            if count > 0 {
                guard (try? socket.send(UnsafeBufferPointer(rebasing: room[0..<count]), with: nil)) != nil else {
                    return false
                }
                continue
            }
            guard sendTrailers() else { return count == 0 }
        }
    }

    /// - Returns: whether some were due.
    private func sendTrailers() -> Bool {
        var hasSent = false
        for (number, stream) in streams where stream.source.pointee.has_ended != 0 {
            guard let trailers = stream.sentTrailers else { continue }
            stream.sentTrailers = nil
            withHTTP2Vectors(trailers) { _ = nghttp2_submit_trailer(codec, number, $0.baseAddress, $0.count) }
            hasSent = true
        }
        return hasSent
    }
}

/// Calls `work` with the fields as the codec takes them.
func withHTTP2Vectors<Result>(
    _ fields: [(String, String)], _ work: (UnsafeBufferPointer<nghttp2_nv>) -> Result
) -> Result {
    var text: [UInt8] = []
    for (name, value) in fields { text += Array(name.utf8) + Array(value.utf8) }
    return text.withUnsafeMutableBufferPointer { text in
        var place = 0
        let vectors = fields.map { name, value in
            let vector = nghttp2_nv(
                name: text.baseAddress! + place, value: text.baseAddress! + place + name.utf8.count,
                namelen: name.utf8.count, valuelen: value.utf8.count, flags: 0)
            place += name.utf8.count + value.utf8.count
            return vector
        }
        return vectors.withUnsafeBufferPointer(work)
    }
}
