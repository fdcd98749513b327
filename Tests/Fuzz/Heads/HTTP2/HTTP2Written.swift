import CNGHTTP2
import Glibc
import LanyardRequestPath

/// Reads what a session writes, by the plainest reading of RFC 9113, and holds it to what a peer may expect.
final class HTTP2Written {
    /// One stream, as far as this side has sent on it.
    struct Stream {
        /// Heads that were submitted, in order.
        var heads: [HTTP2FuzzHead] = []
        var data = 0
        fileprivate(set) var sentHeads = 0
        fileprivate(set) var hasEnded = false
        fileprivate(set) var isReset = false
    }

    struct GoAway: Equatable {
        var last: Int32
        var code: UInt32
    }

    private struct Frame {
        var type: HTTP2FrameType
        var flags: UInt8
        var stream: Int32
        var payload: ArraySlice<UInt8>

        var ends: Bool { flags & HTTP2FrameType.endStream != 0 }
    }

    /// All frames but those of windows, whose number and amounts depend on the cuts: the codec gives room back for each piece.
    private(set) var comparable: [UInt8] = []
    private var bytes: [UInt8] = []
    var streams: [Int32: Stream] = [:]
    private(set) var dataBytes = 0
    private(set) var settingsAcknowledged = 0
    /// What the acknowledged PINGs hold, one behind the other.
    private(set) var pingsAcknowledged: [UInt8] = []
    /// Bytes that the peer may send on the connection besides the first 65,535.
    private(set) var credit = 0
    private(set) var goAway: GoAway?
    private var place = 0
    private var hasSettings = false
    /// A head of which not all frames have been read.
    private var block: [UInt8] = []
    private var blockFrame: Frame?
    private let side: HTTP2Session.Side
    private let inflater: OpaquePointer

    init(by side: HTTP2Session.Side) {
        self.side = side
        var inflater: OpaquePointer?
        guard nghttp2_hd_inflate_new(&inflater) == 0, let inflater else { fatalError("no memory for a fuzz head") }
        self.inflater = inflater
    }

    deinit { nghttp2_hd_inflate_del(inflater) }

    /// The stream was reset, by either party of this side.
    func isReset(_ stream: Int32) -> Bool { streams[stream]?.isReset ?? false }

    /// A head was written.
    func hasHead(_ stream: Int32) -> Bool { streams[stream].map { $0.sentHeads > 0 } ?? false }

    /// Reads frames, which are whole.
    func add(_ run: UnsafeRawBufferPointer) throws(BrokenPromise) {
        bytes += run
        if place == 0, side == .client, !bytes.isEmpty {
            try BrokenPromise.unless(bytes.starts(with: HTTP2FuzzBlocks.preface), "a client begins without its preface")
            place = HTTP2FuzzBlocks.preface.count
        }
        while place < bytes.count {
            try BrokenPromise.unless(bytes.count - place >= 9, "a frame's header was written in part")
            let count = Int(bytes[place]) << 16 | Int(bytes[place + 1]) << 8 | Int(bytes[place + 2])
            try BrokenPromise.unless(count <= 16384, "a frame is longer than every peer takes")
            try BrokenPromise.unless(bytes.count - place - 9 >= count, "a frame was written in part")
            guard let type = HTTP2FrameType(rawValue: bytes[place + 3]), type != .unknown else {
                throw BrokenPromise("a frame of no known type was written")
            }
            try BrokenPromise.unless(bytes[place + 5] & 0x80 == 0, "the reserved bit is set")
            let frame = Frame(
                type: type, flags: bytes[place + 4], stream: HTTP2PeerFrames.number(bytes[(place + 5)...]),
                payload: bytes[(place + 9)..<(place + 9 + count)])
            if type != .windowUpdate { comparable += bytes[place..<(place + 9 + count)] }
            place += 9 + count
            try add(frame)
        }
    }

    // MARK: - Frames

    private func add(_ frame: Frame) throws(BrokenPromise) {
        if !hasSettings {
            try BrokenPromise.unless(frame.type == .settings && frame.flags == 0, "the first frame is not SETTINGS")
            hasSettings = true
        }
        let isHead = frame.type == .continuation
        try BrokenPromise.unless((blockFrame != nil) == isHead, "a head is interrupted, or continued without its start")
        switch frame.type {
        case .data: try addData(frame)
        case .headers, .continuation: try addHead(frame)
        case .settings, .ping, .goAway: try addOfConnection(frame)
        case .windowUpdate:
            try BrokenPromise.unless(frame.flags == 0 && frame.payload.count == 4, "a WINDOW_UPDATE of another form")
            let amount = Int(HTTP2PeerFrames.number(frame.payload))
            try BrokenPromise.unless(amount > 0, "a WINDOW_UPDATE of nothing")
            if frame.stream == 0 { credit += amount }
            try BrokenPromise.unless(streams[frame.stream]?.isReset != true, "a WINDOW_UPDATE behind a reset")
        case .reset:
            try BrokenPromise.unless(
                frame.flags == 0 && frame.payload.count == 4 && frame.stream > 0, "an RST_STREAM of another form")
            try BrokenPromise.unless(streams[frame.stream]?.isReset != true, "a stream was reset twice")
            streams[frame.stream, default: Stream()].isReset = true
        case .priority, .pushPromise, .unknown: throw BrokenPromise("a frame that Lanyard does not send")
        }
    }

    private func addOfConnection(_ frame: Frame) throws(BrokenPromise) {
        try BrokenPromise.unless(frame.stream == 0, "a frame of the connection names a stream")
        try BrokenPromise.unless(
            frame.flags & ~HTTP2FrameType.acknowledgement == 0, "flags that the frame does not have")
        let isAcknowledgement = frame.flags != 0
        switch frame.type {
        case .settings:
            let isWhole = isAcknowledgement ? frame.payload.isEmpty : frame.payload.count % 6 == 0
            try BrokenPromise.unless(isWhole, "SETTINGS of another form")
            if isAcknowledgement { settingsAcknowledged += 1 }
        case .ping:
            try BrokenPromise.unless(frame.payload.count == 8, "a PING of another form")
            if isAcknowledgement { pingsAcknowledged += frame.payload }
        default:
            try BrokenPromise.unless(!isAcknowledgement && frame.payload.count >= 8, "a GOAWAY of another form")
            let new = GoAway(
                last: HTTP2PeerFrames.number(frame.payload),
                code: frame.payload.dropFirst(4).prefix(4).reduce(0) { $0 << 8 | UInt32($1) })
            try BrokenPromise.unless(new.code <= 13, "a GOAWAY with an unknown code")
            try BrokenPromise.unless(new.last <= goAway?.last ?? .max, "a later GOAWAY serves more streams")
            try BrokenPromise.unless(
                frame.payload.dropFirst(8).allSatisfy { $0 < 0x80 }, "a GOAWAY's text is not ASCII")
            goAway = new
        }
    }

    // MARK: - Messages

    private func addData(_ frame: Frame) throws(BrokenPromise) {
        try BrokenPromise.unless(frame.flags & ~HTTP2FrameType.endStream == 0, "DATA has other flags")
        guard var stream = streams[frame.stream] else { throw BrokenPromise("DATA on a stream without a head") }
        try BrokenPromise.unless(stream.sentHeads > 0, "DATA in front of the head")
        try BrokenPromise.unless(!stream.hasEnded && !stream.isReset, "DATA behind the end of the stream")
        stream.data += frame.payload.count
        dataBytes += frame.payload.count
        stream.hasEnded = frame.ends
        streams[frame.stream] = stream
    }

    private func addHead(_ frame: Frame) throws(BrokenPromise) {
        let isEnd = frame.flags & HTTP2FrameType.endHeaders != 0
        if let first = blockFrame {
            try BrokenPromise.unless(first.stream == frame.stream, "a head continues on another stream")
            try BrokenPromise.unless(frame.flags & ~HTTP2FrameType.endHeaders == 0, "CONTINUATION has other flags")
        } else {
            let known = HTTP2FrameType.endHeaders | HTTP2FrameType.endStream
            try BrokenPromise.unless(frame.flags & ~known == 0, "HEADERS has other flags")
            blockFrame = frame
            block.removeAll(keepingCapacity: true)
        }
        block += frame.payload
        guard isEnd, let first = blockFrame else { return }
        blockFrame = nil
        guard var stream = streams[first.stream] else { throw BrokenPromise("a head that was not submitted") }
        try BrokenPromise.unless(!stream.hasEnded && !stream.isReset, "a head behind the end of the stream")
        try BrokenPromise.unless(stream.sentHeads < stream.heads.count, "more heads than were submitted")
        try checkBlock(stream.heads[stream.sentHeads].vectors)
        stream.sentHeads += 1
        stream.hasEnded = first.ends
        streams[first.stream] = stream
    }

    /// The compressed head means what was submitted, and a field that no table may have is none of a table's.
    private func checkBlock(_ expected: [nghttp2_nv]) throws(BrokenPromise) {
        var fields = 0
        var start = 0
        while true {
            var field = nghttp2_nv()
            var flags: CInt = 0
            let used = block.withUnsafeBufferPointer {
                nghttp2_hd_inflate_hd2(inflater, &field, &flags, $0.baseAddress.map { $0 + start }, $0.count - start, 1)
            }
            try BrokenPromise.unless(used >= 0, "a head that cannot be decoded was written")
            start += used
            if flags & CInt(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
                try BrokenPromise.unless(fields < expected.count, "a head has more fields than were submitted")
                try BrokenPromise.unless(
                    Self.isSame(field, expected[fields]), "a head has another field than was submitted")
                fields += 1
            }
            if flags & CInt(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 { break }
            try BrokenPromise.unless(
                start < block.count || flags & CInt(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0, "a head ends in a field")
        }
        _ = nghttp2_hd_inflate_end_headers(inflater)
        try BrokenPromise.unless(fields == expected.count, "a head lacks fields")
    }

    private static func isSame(_ left: nghttp2_nv, _ right: nghttp2_nv) -> Bool {
        let mask = UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
        return left.namelen == right.namelen && left.valuelen == right.valuelen
            && left.flags & mask == right.flags & mask
            && memcmp(left.name, right.name, left.namelen) == 0 && memcmp(left.value, right.value, left.valuelen) == 0
    }
}
