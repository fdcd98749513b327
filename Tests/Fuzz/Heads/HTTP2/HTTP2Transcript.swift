import CNGHTTP2
import LanyardRequestPath

/// What a session has said, without what the cuts may change: bytes of a body that follow each other are one item.
struct HTTP2Transcript {
    enum Kind { case head, trailers, body, end, settings, pingAcknowledged, goAway, closed }

    struct Item: Equatable {
        var kind: Kind
        var stream: Int32
        var flags: UInt32 = 0
        var count = 0
        /// Of the bytes (FNV-1a), or a code.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    }

    private var all: [Item] = []
    /// The peer has sent one.
    private(set) var hasGoAway = false

    /// What the cuts may not change. Of a body that this side has reset some bytes come and some do not: one that is longer than its
    /// `content-length` is known to be so with the piece that has the byte too much. The reset is not written if the connection ends.
    func items(besides written: HTTP2Written, isEnded: Bool) -> [Item] {
        let whole = Set(all.lazy.filter { $0.kind == .end }.map(\.stream))
        return all.filter { item in
            item.kind != .body || !(written.isReset(item.stream) || (isEnded && !whole.contains(item.stream)))
        }
    }

    mutating func add(_ event: lanyard_h2_event) {
        let kind: Kind =
            switch event.known {
            case .head: .head
            case .trailers: .trailers
            case .data: .body
            case .end: .end
            case .settings: .settings
            case .pingAcknowledged: .pingAcknowledged
            case .goAway: .goAway
            }
        if kind == .goAway { hasGoAway = true }
        var item = Item(kind: kind, stream: event.stream, flags: event.flags, count: event.count)
        item.hash = Self.hash(event.content, from: item.hash ^ UInt64(event.code))
        all.append(item)
    }

    /// Bytes of a body, its end, or both.
    mutating func addBody(_ event: lanyard_h2_event) {
        if event.count > 0 {
            if all.last?.kind != .body || all.last?.stream != event.stream {
                all.append(Item(kind: .body, stream: event.stream))
            }
            all[all.count - 1].count += event.count
            all[all.count - 1].hash = Self.hash(event.content, from: all[all.count - 1].hash)
        }
        if event.ends { all.append(Item(kind: .end, stream: event.stream)) }
    }

    mutating func addClosed(_ stream: Int32, _ code: UInt32) {
        all.append(Item(kind: .closed, stream: stream, hash: UInt64(code)))
    }

    private static func hash(_ bytes: UnsafeRawBufferPointer, from start: UInt64) -> UInt64 {
        var hash = start
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return hash
    }

    static func isSame(_ left: lanyard_h2_counts, _ right: lanyard_h2_counts) -> Bool {
        left.resets == right.resets && left.controls == right.controls && left.window_updates == right.window_updates
            && left.data_sent == right.data_sent && left.data_received == right.data_received
    }
}

/// Holds the text of a head or of trailers to the form that the readers of HTTP/1.1 expect.
enum HTTP2HeadText {
    static func check(
        _ event: lanyard_h2_event, _ side: HTTP2Session.Side, _ options: HTTP2FuzzOptions
    ) throws(BrokenPromise) {
        let text = event.content
        if event.isTooLarge || event.isMalformed || event.hasOtherScheme {
            return try BrokenPromise.unless(text.isEmpty, "a head with a fault has a text")
        }
        // The authority of CONNECT stands in it twice.
        try BrokenPromise.unless(text.count <= 2 * options.listBytesMax + 64, "a head is longer than the limit")
        var lines = 0
        var start = 0
        var blanks = 0
        for place in 0..<text.count {
            let byte = text[place]
            try BrokenPromise.unless(byte != 0, "a head with NUL")
            if byte == 0x0d {
                try BrokenPromise.unless(place + 1 < text.count && text[place + 1] == 0x0a, "a head with CR alone")
            }
            if byte == 0x20, lines == 0 { blanks += 1 }
            guard byte == 0x0a else { continue }
            try BrokenPromise.unless(place > 0 && text[place - 1] == 0x0d, "a head with LF alone")
            let isEmpty = place - 1 == start
            try BrokenPromise.unless(isEmpty == (place + 1 == text.count), "an empty line that is not the last one")
            lines += 1
            start = place + 1
        }
        try BrokenPromise.unless(start == text.count && lines > 0, "a head does not end in an empty line")
        // The start line, `Host`, the empty line.
        try BrokenPromise.unless(lines <= options.listFieldsMax + 3, "a head has more fields than the limit")
        if event.known == .head {
            try BrokenPromise.unless(blanks == 2, "a start line of another form")
        }
    }
}
