import LanyardRequestPath

/// What the frames of the peer say, by the plainest reading of RFC 9113 §4.1. All frames are read, also those that a session refuses:
/// what is counted here is the most that the session may make of them.
struct HTTP2PeerFrames {
    private(set) var settings = 0
    /// What the PINGs hold that want a reply, one behind the other.
    private(set) var pings: [UInt8] = []
    /// Bytes of DATA frames, with their padding.
    private(set) var dataBytes = 0
    /// Bytes that this side may send on the connection.
    private(set) var connectionWindow = 65535
    private(set) var latestStream: Int32 = 0
    private var initialWindow = 65535
    private var updates: [Int32: Int] = [:]
    /// Where the first frame begins that is not whole.
    private var place: Int
    private var isHeadOpen = false

    init(startingAt place: Int) { self.place = place }

    /// Bytes that this side may send on the stream.
    func window(of stream: Int32) -> Int { initialWindow + updates[stream, default: 0] }

    /// Reads on, up to `end`.
    mutating func advance(_ bytes: [UInt8], to end: Int) {
        while end - place >= 9 {
            let count = Int(bytes[place]) << 16 | Int(bytes[place + 1]) << 8 | Int(bytes[place + 2])
            guard end - place - 9 >= count else { return }
            let payload = bytes[(place + 9)..<(place + 9 + count)]
            add(
                HTTP2FrameType(rawValue: bytes[place + 3]), bytes[place + 4], Self.number(bytes[(place + 5)...]),
                payload)
            place += 9 + count
        }
    }

    /// Whether a head may be incomplete: one has no end yet, or a frame is not whole.
    func mayBeWithinHead(_ end: Int) -> Bool { isHeadOpen || place < end }

    /// No part of a frame is read.
    func isAtFrame(_ end: Int) -> Bool { place == end }

    /// Bytes behind the last whole frame.
    func restBytes(_ end: Int) -> Int { max(end - place, 0) }

    private mutating func add(_ type: HTTP2FrameType?, _ flags: UInt8, _ stream: Int32, _ payload: ArraySlice<UInt8>) {
        switch type {
        case .data: dataBytes += payload.count
        case .headers:
            latestStream = max(latestStream, stream)
            isHeadOpen = flags & HTTP2FrameType.endHeaders == 0
        case .continuation: isHeadOpen = isHeadOpen && flags & HTTP2FrameType.endHeaders == 0
        case .settings where flags & HTTP2FrameType.acknowledgement == 0:
            settings += 1
            var rest = payload
            while rest.count >= 6 {
                if rest[rest.startIndex + 1] == 4 {
                    initialWindow = max(initialWindow, Int(Self.number(rest.dropFirst(2))))
                }
                rest = rest.dropFirst(6)
            }
        case .ping where flags & HTTP2FrameType.acknowledgement == 0: pings += payload
        case .windowUpdate where payload.count == 4:
            let amount = Int(Self.number(payload))
            if stream == 0 { connectionWindow += amount } else { updates[stream, default: 0] += amount }
        default: break
        }
    }

    /// Four bytes without the highest bit.
    static func number(_ bytes: ArraySlice<UInt8>) -> Int32 {
        Int32(bytes.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) } & 0x7fff_ffff)
    }
}
