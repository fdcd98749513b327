import LanyardRequestPath
import LanyardSettings

/// What an input of the heads of HTTP/2 means: bytes of the peer, and what this side does between them.
///
/// The first byte chooses the settings. Then, unless it asks for plain bytes, each step begins with a byte: a frame's type and stream,
/// or an action. Lengths are right unless the step says its bytes itself, so that most inputs get far.
struct HTTP2Script {
    enum Step {
        /// Bytes of the peer.
        case bytes(Range<Int>)
        /// What this side does: its kind, and which stream or how much.
        case action(UInt8, UInt8)
        /// Frames are made.
        case produce
    }

    /// Bytes of all payloads that an input makes.
    private static let bytesMax = 96 << 10

    let options: HTTP2FuzzOptions
    private(set) var bytes: [UInt8] = []
    private(set) var steps: [Step] = []
    /// Most of a long payload, which repeats one byte: it is not torn at each byte.
    private(set) var longRuns: [Range<Int>] = []
    private let side: HTTP2Session.Side
    private let input: Bytes
    private var place = 1
    /// The latest stream of the peer's that the script has begun.
    private var latest: UInt32 = 0
    /// The rest of a head whose first part was a frame of its own.
    private var headRest: ArraySlice<UInt8> = []

    init(_ input: Bytes, _ side: HTTP2Session.Side) {
        self.input = input
        self.side = side
        options = HTTP2FuzzOptions(input.first ?? 0)
        bytes.reserveCapacity(4 << 10)
        if options.hasStart { addStart() }
        if side == .client, options.hasStart { steps.append(.action(HTTP2Run.Action.request.rawValue, 0)) }
        guard !options.isPlain else {
            let start = bytes.count
            bytes += input[run: min(1, input.count)..<input.count]
            addBytes(from: start)
            return
        }
        while place < input.count, bytes.count < Self.bytesMax { addStep() }
    }

    private mutating func addStart() {
        if side == .server { bytes += HTTP2FuzzBlocks.preface }
        addFrame(.settings, flags: 0, on: 0, [])
        steps = [.bytes(0..<bytes.count)]
    }

    /// The next byte of the input; 0 behind its end.
    private mutating func next() -> UInt8 {
        defer { place += 1 }
        return place < input.count ? input[place] : 0
    }

    private mutating func next(_ count: Int) -> ArraySlice<UInt8> {
        let start = min(place, input.count)
        let end = min(start + count, input.count)
        place = end
        return Array(input[run: start..<end])[...]
    }

    // MARK: Steps

    private mutating func addStep() {
        let word = next()
        let start = bytes.count
        switch word & 15 {
        case 13, 14: return steps.append(.action(word >> 4 | (word & 1 == 0 ? 16 : 0), next()))
        case 15: return steps.append(.produce)
        case 12: bytes += next(9)
        case 11: bytes += next(Int(next()))
        case let type: addFrame(HTTP2FrameType(rawValue: type) ?? .unknown, word)
        }
        addBytes(from: start)
    }

    /// The bytes that were made since. Where frames do not leave promptly, one read brings all frames between two acts of this side.
    private mutating func addBytes(from start: Int) {
        if !options.isPrompt, case .bytes(let former) = steps.last {
            steps[steps.count - 1] = .bytes(former.lowerBound..<bytes.count)
        } else {
            steps.append(.bytes(start..<bytes.count))
        }
    }

    private mutating func addFrame(_ type: HTTP2FrameType, _ word: UInt8) {
        let stream = stream(word >> 4 & 7)
        let flags = next()
        var payload: [UInt8] = []
        if word & 0x80 != 0 {
            payload += next(Int(next()))
        } else {
            addPayload(of: type, flags, to: &payload)
        }
        addFrame(type, flags: flags, on: stream, payload[...])
    }

    private mutating func addFrame(
        _ type: HTTP2FrameType, flags: UInt8, on stream: UInt32, _ payload: ArraySlice<UInt8>
    ) {
        let count = UInt32(payload.count)
        bytes += [UInt8(count >> 16), UInt8(count >> 8 & 255), UInt8(count & 255), type.rawValue, flags]
        add(stream, to: &bytes)
        if payload.count > 256 { longRuns.append((bytes.count + 40)..<(bytes.count + payload.count - 8)) }
        bytes += payload
    }

    private mutating func stream(_ choice: UInt8) -> UInt32 {
        if side == .client { return [0, 1, 3, 5, 7, 2, 9, 0x7fff_ffff][Int(choice)] }
        switch choice {
        case 0: return 0
        case 1: return latest
        case 2:
            latest = latest == 0 ? 1 : latest &+ 2
            return latest
        case 3: return 1
        case 4: return 3
        case 5: return 2
        case 6: return latest < 2 ? latest : latest - 2
        default: return 0x7fff_ffff
        }
    }

    // MARK: Payloads

    private mutating func addPayload(of type: HTTP2FrameType, _ flags: UInt8, to payload: inout [UInt8]) {
        switch type {
        case .data: addData(flags, to: &payload)
        case .headers, .pushPromise: addHead(type, flags, to: &payload)
        case .continuation:
            if headRest.isEmpty { headRest = block() }
            payload += takeRest(isWhole: flags & HTTP2FrameType.endHeaders != 0)
        case .priority: payload += [0, 0, 0, next(), next()]
        case .reset: add(UInt32(next()), to: &payload)
        case .settings:
            guard flags & 1 == 0 else { return }
            for _ in 0..<(next() & 3) {
                payload += [0, next()]
                add(value(next()), to: &payload)
            }
        case .ping: payload += [UInt8](repeating: next(), count: 8)
        case .goAway:
            add(value(next()), to: &payload)
            add(UInt32(next()), to: &payload)
        case .windowUpdate: add(value(next()), to: &payload)
        case .unknown: payload += next(Int(next() & 31))
        }
    }

    private mutating func addData(_ flags: UInt8, to payload: inout [UInt8]) {
        let padding = flags & HTTP2FrameType.padded != 0 ? next() : nil
        if let padding { payload.append(padding) }
        let size = Int(next())
        payload += [UInt8](repeating: 0x61, count: size < 200 ? size : (size - 199) * 256)
        payload += [UInt8](repeating: 0, count: Int(padding ?? 0))
    }

    private mutating func addHead(_ type: HTTP2FrameType, _ flags: UInt8, to payload: inout [UInt8]) {
        let padding = flags & HTTP2FrameType.padded != 0 ? next() : nil
        if let padding { payload.append(padding) }
        if type == .pushPromise { add(UInt32(next()), to: &payload) }
        if type == .headers, flags & HTTP2FrameType.hasPriority != 0 { payload += [0, 0, 0, next(), next()] }
        headRest = block()
        payload += takeRest(isWhole: flags & HTTP2FrameType.endHeaders != 0)
        payload += [UInt8](repeating: 0, count: Int(padding ?? 0))
    }

    /// A compressed list of fields: a prepared one, or the input's bytes.
    private mutating func block() -> ArraySlice<UInt8> {
        let word = next()
        guard word < 0x80 else { return next(Int(word & 0x7f)) }
        let blocks = side == .server ? HTTP2FuzzBlocks.requests : HTTP2FuzzBlocks.responses
        return blocks[Int(word) % blocks.count][...]
    }

    private mutating func takeRest(isWhole: Bool) -> ArraySlice<UInt8> {
        let part = isWhole ? headRest : headRest.prefix((headRest.count + 1) / 2)
        headRest = headRest.dropFirst(part.count)
        return part
    }

    /// Numbers at which something changes.
    private func value(_ byte: UInt8) -> UInt32 {
        let edges: [UInt32] = [
            0, 1, 3, 100, 4096, 16383, 16384, 65535, 65536, 0xff_ffff, 0x100_0000, 0x7fff_0000, 0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
        ]
        return Int(byte) < edges.count ? edges[Int(byte)] : UInt32(byte) * UInt32(byte)
    }

    private func add(_ number: UInt32, to bytes: inout [UInt8]) {
        for shift in [24, 16, 8, 0] as [UInt32] { bytes.append(UInt8(number >> shift & 255)) }
    }
}

/// What the first byte of an input chooses.
struct HTTP2FuzzOptions {
    /// All other bytes are the peer's, as they stand.
    let isPlain: Bool
    let isSecure: Bool
    let limits: HTTP2Session.Limits
    let listBytesMax: Int
    let listFieldsMax: Int
    let connectionWindow: Int
    /// The peer begins as it must.
    let hasStart: Bool
    /// Frames are made behind each step.
    let isPrompt: Bool

    init(_ byte: UInt8) {
        isPlain = byte & 1 != 0
        isSecure = byte & 2 != 0
        hasStart = byte & 64 == 0
        isPrompt = byte & 128 == 0
        var settings = HTTP2Settings()
        settings.streamsMax = 1
        settings.streamWindow = [65536, 4096, 1000, 100_000][Int(byte >> 2 & 3)]
        settings.connectionWindow = 65536
        (listBytesMax, listFieldsMax) = [(8192, 100), (200, 100), (8192, 5), (1000, 20)][Int(byte >> 4 & 3)]
        connectionWindow = max(65536, settings.streamWindow)
        limits = HTTP2Session.Limits(
            settings,
            HeadLimits(
                startLineBytesMax: listBytesMax, fieldLineBytesMax: listBytesMax, sectionBytesMax: listBytesMax,
                fieldsMax: listFieldsMax))
    }
}

/// Types of frames, and flags of theirs (RFC 9113 §6).
enum HTTP2FrameType: UInt8 {
    case data, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
    case unknown

    static let endStream: UInt8 = 1
    static let acknowledgement: UInt8 = 1
    static let endHeaders: UInt8 = 4
    static let padded: UInt8 = 8
    static let hasPriority: UInt8 = 32
}
