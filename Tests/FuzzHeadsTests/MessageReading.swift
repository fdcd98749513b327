import LanyardRequestPath
import LanyardSettings

/// What our readers make of a whole message: heads, body, trailers and where it ends, written as `h11_peer.py` writes what h11 makes
/// of it.
struct MessageReading {
    enum Outcome { case whole, part, refused }

    private(set) var outcome = Outcome.part
    /// The message's meaning; of a refused one whatever came before the fault.
    private(set) var meaning: [UInt8] = []
    private var used = 0
    private var isResponse = false

    init(_ message: HTTPMessage) {
        // Behind the bytes stands one that belongs to no message: an empty message has an address as well.
        (message.bytes + [0]).withUnsafeBufferPointer { read(message.kind, Bytes(rebasing: $0.dropLast())) }
    }

    private mutating func read(_ kind: HTTPMessage.Kind, _ bytes: Bytes) {
        isResponse = kind != .request
        do throws(HeadError) {
            let framing =
                kind == .request
                ? try readRequest(bytes) : try readResponse(bytes, isResponseToHead: kind == .responseToHead)
            guard let framing else {
                return end(bytes, body: [], trailers: [])
            }
            try readBody(framing, bytes)
        } catch {
            outcome = .refused
        }
    }

    // MARK: - Heads

    /// nil: the head is not whole.
    private mutating func readRequest(_ bytes: Bytes) throws(HeadError) -> BodyFraming? {
        let limits = HeadLimits(LimitSettings())
        let table = FieldTable(capacity: limits.fieldsMax)
        var reader = RequestReader()
        guard let head = try reader.read(bytes, into: table, limits: limits) else { return nil }
        add(bytes[run: head.method])
        add(" ")
        add(bytes[run: head.target])
        add(" 1.\(head.minorVersion)\n")
        add(table, bytes)
        used = head.length
        switch head.framing {
        case .none: add("length 0\n")
        case .length(let length): add("length \(length)\n")
        case .chunked: add("chunked\n")
        case .untilClose: break
        }
        return head.framing
    }

    private mutating func readResponse(_ bytes: Bytes, isResponseToHead: Bool) throws(HeadError) -> BodyFraming? {
        let table = FieldTable(capacity: HeadLimits.response.fieldsMax)
        while true {
            var reader = ResponseReader()
            let rest = bytes[run: used..<bytes.count]
            guard let head = try reader.read(rest, into: table, isResponseToHead: isResponseToHead) else { return nil }
            add("1.\(head.minorVersion) \(head.status) ")
            add(rest[run: head.reason])
            add("\n")
            add(table, rest)
            used += head.length
            if head.status < 200 {
                add("interim\n")
                if head.isInterim { continue }
                return BodyFraming.none
            }
            switch head.framing {
            case .none: add("length 0\n")
            case .length(let length): add("length \(length)\n")
            case .chunked: add("chunked\n")
            case .untilClose: add("until close\n")
            }
            return head.framing
        }
    }

    // MARK: - Body

    private mutating func readBody(_ framing: BodyFraming, _ bytes: Bytes) throws(HeadError) {
        let rest = bytes[run: used..<bytes.count]
        switch framing {
        case .none:
            outcome = .whole
            end(bytes, body: [], trailers: [])
        case .length(let length):
            let count = min(length, rest.count)
            outcome = count == length ? .whole : .part
            used += count
            end(bytes, body: Array(rest.prefix(count)), trailers: [])
        case .untilClose:
            outcome = .whole
            used = bytes.count
            end(bytes, body: Array(rest), trailers: [])
        case .chunked: try readChunks(rest, bytes)
        }
    }

    private mutating func readChunks(_ rest: Bytes, _ bytes: Bytes) throws(HeadError) {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: rest.count + 1, alignment: 1)
        defer { room.deallocate() }
        room.copyBytes(from: rest)
        let run = UnsafeMutableRawBufferPointer(rebasing: room[0..<rest.count])
        var reader = ChunkedReader(takesTrailingBlanks: isResponse)
        var position = 0
        let count = try reader.gather(run, from: &position)
        guard reader.isDone else { return end(bytes, body: Array(run[0..<count]), trailers: []) }
        outcome = .whole
        used += position
        let table = FieldTable(capacity: HeadLimits.trailers.fieldsMax)
        let section = rest[run: reader.trailerBytes]
        var fields = FieldSectionReader()
        var place = 0
        _ = try fields.read(section, from: &place, into: table, limits: .trailers)
        end(bytes, body: Array(run[0..<count]), trailers: Self.text(of: table, section))
    }

    // MARK: - Writing

    private mutating func end(_ bytes: Bytes, body: [UInt8], trailers: [UInt8]) {
        meaning += body
        add("\n")
        meaning += trailers
        add(outcome == .whole ? "whole\nleft \(bytes.count - used)\n" : "part\nleft 0\n")
    }

    private mutating func add(_ text: String) { meaning += text.utf8 }

    private mutating func add(_ bytes: Bytes) { meaning += bytes }

    private mutating func add(_ table: FieldTable, _ bytes: Bytes) { meaning += Self.text(of: table, bytes) }

    private static func text(of table: FieldTable, _ bytes: Bytes) -> [UInt8] {
        var text: [UInt8] = []
        for index in 0..<table.count {
            text += table.name(index, in: bytes)
            text += ": ".utf8
            let value = table.value(index, in: bytes)
            // Codings have no case (http-requests.md 5.3), and h11 tells them in small letters.
            text += table[index].name == .transferEncoding ? value.map(ByteClass.lower) : Array(value)
            text += "\n".utf8
        }
        return text
    }
}

/// A message of the differential tests, and how it is to be read.
struct HTTPMessage {
    enum Kind: UInt8, CaseIterable { case request, response, responseToHead }

    var kind: Kind
    var bytes: [UInt8]

    /// With everything that does not print escaped.
    var shown: String { bytes.map { String(UnicodeScalar($0).escaped(asASCII: true)) }.joined() }
}
