import CNGHTTP2
import LanyardFoundations
import LanyardSettings

/// The codec of one HTTP/2 connection: bytes in, events out; messages in, frames out (RFC 9113). What it is fed and what it has said
/// is judged elsewhere.
///
/// It does no I/O. Belongs to a connection, which checks the queue.
package final class HTTP2Session {
    /// What the session announces, and holds its peer to.
    package struct Limits {
        let streamsMax: Int
        let streamWindow: Int
        let connectionWindow: Int
        /// Bytes of a list of fields, each with 32 more; four times that ends the connection (H37).
        let listBytesMax: Int
        let listFieldsMax: Int
        /// Extended CONNECT is announced (RFC 8441 §3).
        var takesConnect = false

        /// RFC 9113 §6.9.1.
        private static let windowMax = Int(Int32.max)

        /// - Parameter heads: of the peer's messages.
        package init(_ settings: HTTP2Settings, _ heads: HeadLimits) {
            streamsMax = settings.streamsMax
            streamWindow = settings.streamWindow
            // Stalled streams do not stop others (H19).
            connectionWindow = min(
                max(settings.connectionWindow, settings.streamsMax * settings.streamWindow), Self.windowMax)
            (listBytesMax, listFieldsMax) = (heads.sectionBytesMax, heads.fieldsMax)
        }
    }

    /// Why a stream ends before its end (RFC 9113 §7).
    package enum Code: UInt32 {
        case noError = 0
        case protocolError = 1
        case internalError = 2
        case refusedStream = 7
        case cancel = 8
        case connectError = 10
        case enhanceYourCalm = 11
        case http11Required = 13
    }

    private let raw: OpaquePointer
    private let codec: OpaquePointer
    private let memory: FrameMemory?
    /// Of memory that each session takes, however little it does: `limits.connections_max` bounds it.
    private let bytesAtStart: Int
    /// What the budget has of it.
    private var countedBytes = 0

    /// Which end of the connection it is.
    package enum Side { case server, client }

    /// nil: there is no memory.
    ///
    /// - Parameters:
    ///   - isSecure: the bytes are TLS's.
    ///   - memory: counts what the codec holds; nil: it is not counted.
    package init?(_ side: Side, within limits: Limits, isSecure: Bool, memory: FrameMemory? = nil) {
        var raw = lanyard_h2_limits()
        raw.is_secure = isSecure ? 1 : 0
        raw.is_server = side == .server ? 1 : 0
        raw.streams_max = UInt32(clamping: limits.streamsMax)
        raw.stream_window = UInt32(clamping: limits.streamWindow)
        raw.connection_window = UInt32(clamping: limits.connectionWindow)
        raw.list_bytes_max = UInt32(clamping: limits.listBytesMax)
        raw.list_fields_max = UInt32(clamping: limits.listFieldsMax)
        raw.takes_connect = limits.takesConnect ? 1 : 0
        guard let session = lanyard_h2_new(&raw) else { return nil }
        self.raw = session
        codec = lanyard_h2_session(session)
        self.memory = memory
        bytesAtStart = lanyard_h2_bytes(session)
        memory?.beginSession()
    }

    deinit {
        lanyard_h2_free(raw)
        guard let memory else { return }
        memory.budget.release(countedBytes)
        memory.endSession()
    }

    // MARK: Memory

    /// What is counted at once: most turns of a connection change nothing.
    private static let countedStep = 4 << 10

    /// Counts what the codec holds by now, beyond its first memory (H19): frames that wait, tables, streams, a head in parts.
    package func countMemory() {
        guard let budget = memory?.budget else { return }
        let held = max(lanyard_h2_bytes(raw) - bytesAtStart, 0)
        let counted = (held + Self.countedStep - 1) / Self.countedStep * Self.countedStep
        if counted > countedBytes { budget.add(counted - countedBytes) }
        if counted < countedBytes { budget.release(countedBytes - counted) }
        countedBytes = counted
    }

    // MARK: What has come

    /// Reads bytes. The events are in the workspace until its next use.
    ///
    /// - Returns: false: the connection must end, as `failureEnd` says.
    package func receive(_ bytes: UnsafeRawBufferPointer, in workspace: HTTP2Workspace) -> Bool {
        // Without bytes, too: the events of the call before may be another session's.
        let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        return lanyard_h2_receive(raw, workspace.raw, base, bytes.count) == 0
    }

    /// How the connection ends if `receive` has failed.
    package var failureEnd: HTTP2End {
        switch lanyard_h2_failure(raw) {
        case LANYARD_H2_LIST_TOO_LONG: .headerList
        case LANYARD_H2_TOO_MANY_CONTINUATIONS: .continuations
        default: .malformed
        }
    }

    /// The rest of a head is to come.
    package var isWithinHead: Bool { lanyard_h2_is_within_head(raw) != 0 }

    /// The frames since the last call.
    package func takeCounts() -> lanyard_h2_counts { lanyard_h2_take_counts(raw) }

    /// The owner comes with each further event of the stream, and with its end. Each head that has come gets one.
    ///
    /// - Parameter owner: not retained; nil: the stream is of no interest.
    /// - Returns: false: the stream is closed already.
    package func adopt(_ stream: Int32, by owner: UnsafeMutableRawPointer?) -> Bool {
        lanyard_h2_adopt(raw, stream, owner) != 0
    }

    /// Streams for `takeClosed`.
    package var closedCount: Int { lanyard_h2_closed_count(raw) }

    /// The owner of a stream that has closed, and the code with which; nil: there is none.
    package func takeClosed() -> (owner: UnsafeMutableRawPointer, code: UInt32)? {
        var code: UInt32 = 0
        guard let owner = lanyard_h2_take_closed(raw, &code) else { return nil }
        return (owner, code)
    }

    // MARK: Windows

    /// Bytes of a body have left: the peer may send as many more. On a stream that has closed, as many on the connection.
    package func consume(_ count: Int, of stream: Int32) {
        guard count > 0 else { return }
        if nghttp2_session_consume(codec, stream, count) != 0 { consume(count) }
    }

    /// Bytes of a body were dropped with their stream.
    package func consume(_ count: Int) { if count > 0 { _ = nghttp2_session_consume_connection(codec, count) } }

    // MARK: What is sent

    /// Submits the head of a response.
    ///
    /// - Parameter source: of its body, at a place that stays until the stream is closed; nil: the stream ends with the head.
    /// - Returns: false: the stream is closed, or there is no memory.
    package func respond(
        _ stream: Int32, _ fields: UnsafeBufferPointer<nghttp2_nv>, _ source: UnsafeMutablePointer<lanyard_h2_source>?
    ) -> Bool { lanyard_h2_submit_response(raw, stream, fields.baseAddress, fields.count, source) == 0 }

    /// Submits a request. It becomes a frame with the next `produce`.
    ///
    /// - Parameters:
    ///   - source: as in `respond`.
    ///   - owner: as in `adopt`.
    /// - Returns: the stream; nil: the connection takes none any more, or there is no memory.
    package func request(
        _ fields: UnsafeBufferPointer<nghttp2_nv>, _ source: UnsafeMutablePointer<lanyard_h2_source>?,
        by owner: UnsafeMutableRawPointer
    ) -> Int32? {
        let stream = lanyard_h2_submit_request(raw, fields.baseAddress, fields.count, source, owner)
        return stream > 0 ? stream : nil
    }

    /// No request is to be sent soon: the token of the last one does not stay.
    package func forgetToken() { lanyard_h2_forget_literal(raw) }

    /// The peer may take further requests: it has sent no GOAWAY, and numbers of streams are left.
    package var takesRequests: Bool { nghttp2_session_check_request_allowed(codec) != 0 }

    /// Streams that the peer allows at once; 100 before its first SETTINGS (H26).
    package var peerStreamsMax: Int {
        Int(nghttp2_session_get_remote_settings(codec, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    /// Bytes of a list of fields that the peer takes (RFC 9113 §6.5.2).
    package var peerListBytesMax: Int {
        Int(nghttp2_session_get_remote_settings(codec, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE))
    }

    /// Submits an interim response.
    package func respondInterim(_ stream: Int32, _ fields: UnsafeBufferPointer<nghttp2_nv>) -> Bool {
        nghttp2_submit_headers(
            codec, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, nil, fields.baseAddress, fields.count, nil) == 0
    }

    /// Submits a trailer section. Its body has ended.
    package func submitTrailers(_ stream: Int32, _ fields: UnsafeBufferPointer<nghttp2_nv>) -> Bool {
        nghttp2_submit_trailer(codec, stream, fields.baseAddress, fields.count) == 0
    }

    /// The source of the stream has more bytes, or its end.
    package func resume(_ stream: Int32) { _ = nghttp2_session_resume_data(codec, stream) }

    package func reset(_ stream: Int32, _ code: Code) {
        _ = nghttp2_submit_rst_stream(codec, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
    }

    package func ping() { _ = nghttp2_submit_ping(codec, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil) }

    /// Announces that the connection will end, and counts further streams until `refuseStreams` (RFC 9113 §6.8).
    package func announceEnd() { _ = nghttp2_submit_shutdown_notice(codec) }

    /// The latest stream of the peer.
    package var lastStream: Int32 { nghttp2_session_get_last_proc_stream_id(codec) }

    /// No stream beyond the latest one is processed.
    package func refuseStreams() {
        _ = nghttp2_submit_goaway(
            codec, UInt8(NGHTTP2_FLAG_NONE.rawValue), nghttp2_session_get_last_proc_stream_id(codec),
            Code.noError.rawValue, nil, 0)
    }

    /// Sends a GOAWAY. The caller feeds no further bytes, and closes behind it.
    ///
    /// - Parameter reason: its debug data; ASCII.
    package func goAway(_ code: Code, _ reason: String) {
        var reason = reason
        reason.withUTF8 {
            _ = nghttp2_submit_goaway(
                codec, UInt8(NGHTTP2_FLAG_NONE.rawValue), nghttp2_session_get_last_proc_stream_id(codec),
                code.rawValue, $0.baseAddress, $0.count)
        }
    }

    /// Something may still be read or sent.
    package var isLive: Bool { nghttp2_session_want_read(codec) != 0 || nghttp2_session_want_write(codec) != 0 }

    /// Room that a frame needs.
    package static let frameBytesMax = Int(LANYARD_H2_FRAME_MAX)

    /// Makes frames of what was submitted.
    ///
    /// - Returns: bytes; nil: the codec has failed. Fewer than `frameBytesMax` are left of the room, or nothing is left to be sent.
    package func produce(into room: UnsafeMutableRawBufferPointer) -> Int? {
        guard let base = room.baseAddress else { return 0 }
        let count = lanyard_h2_produce(raw, base.assumingMemoryBound(to: UInt8.self), room.count)
        return count >= 0 ? count : nil
    }
}

/// Memory that the sessions of one shard use in turn: the events of the latest `receive`, and the text of their heads. Belongs to the
/// shard's queue, which its users check.
package final class HTTP2Workspace {
    fileprivate let raw: OpaquePointer

    /// nil: there is no memory.
    package init?() {
        guard let raw = lanyard_h2_new_workspace() else { return nil }
        self.raw = raw
    }

    deinit { lanyard_h2_free_workspace(raw) }

    /// The events of the latest `receive`. Valid until the next one.
    package var events: UnsafeMutableBufferPointer<lanyard_h2_event> {
        var count = 0
        let first = lanyard_h2_events(raw, &count)
        return UnsafeMutableBufferPointer(start: count > 0 ? first : nil, count: count)
    }
}

extension lanyard_h2_event {
    /// The place in the list of the head that has begun the stream; nil: an earlier list had it.
    package var headPlace: Int? { head == -1 ? nil : Int(head) }

    package enum Known { case head, trailers, data, end, settings, pingAcknowledged, goAway }

    /// What the event is.
    package var known: Known {
        switch kind {
        case LANYARD_H2_HEAD: .head
        case LANYARD_H2_TRAILERS: .trailers
        case LANYARD_H2_DATA: .data
        case LANYARD_H2_END: .end
        case LANYARD_H2_SETTINGS: .settings
        case LANYARD_H2_PING_ACK: .pingAcknowledged
        case LANYARD_H2_GOAWAY: .goAway
        default: preconditionFailure("an event of kind \(kind.rawValue)")
        }
    }

    /// A part of a message.
    package var isMessage: Bool {
        switch known {
        case .head, .trailers, .data, .end: true
        case .settings, .pingAcknowledged, .goAway: false
        }
    }

    /// The peer's direction of the stream ends with it.
    package var ends: Bool { flags & UInt32(LANYARD_H2_ENDS) != 0 }
    /// The head is longer than the session allows.
    package var isTooLarge: Bool { flags & UInt32(LANYARD_H2_TOO_LARGE) != 0 }
    /// The scheme is not that of the connection.
    package var hasOtherScheme: Bool { flags & UInt32(LANYARD_H2_OTHER_SCHEME) != 0 }
    /// Its sender has forbidden to index some of its fields.
    package var isNeverIndexed: Bool { flags & UInt32(LANYARD_H2_NEVER_INDEXED) != 0 }
    /// What its text does not say of a request.
    var traits: RequestHead.Traits {
        var traits: RequestHead.Traits = isNeverIndexed ? .neverIndexed : []
        if flags & UInt32(LANYARD_H2_CONNECT) != 0 { traits.insert(.bridged) }
        return traits
    }
    /// The head cannot be a request's.
    package var isMalformed: Bool { flags & UInt32(LANYARD_H2_MALFORMED) != 0 }
    package var content: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: bytes, count: count) }
}
