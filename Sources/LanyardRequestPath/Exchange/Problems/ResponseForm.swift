import LanyardFoundations

/// The form of a response of Lanyard's own (http-connections.md 19.5). Clients of MCP show no other than an error of JSON-RPC.
package enum ResponseForm: Sendable {
    case problem, jsonRPC
    /// An error of a token endpoint (RFC 6749 §5.2).
    case oauth
    /// A head alone, of a call of gRPC (H43).
    case grpc

    /// The media type of the body.
    var contentType: String {
        switch self {
        case .problem: ProblemDetail.contentType
        case .jsonRPC, .oauth: "application/json"
        case .grpc: "\(GRPC.contentType)"
        }
    }
}

/// What a client of JSON-RPC has sent, read as its bytes come: whether a reply to it has an id to refer to.
///
/// It keeps no byte. The JSON is read as far as this needs it: an error of its grammar elsewhere is not found.
///
/// Packed, because each idle connection has one.
struct JSONRPCMessage {
    private enum Place: UInt8 { case before, inside, behind, malformed }

    private struct Flags: OptionSet {
        let rawValue: UInt16

        /// The body is read as a message.
        static let wanted = Flags(rawValue: 1)
        /// The framing of the body is malformed: nothing of it can be read any more.
        static let brokenFraming = Flags(rawValue: 2)
        static let inString = Flags(rawValue: 4)
        static let escaped = Flags(rawValue: 8)
        /// The next string among a message's own members is a name.
        static let expectsName = Flags(rawValue: 16)
        /// The string is a name.
        static let inName = Flags(rawValue: 32)
        static let batch = Flags(rawValue: 64)
        static let hasMessages = Flags(rawValue: 128)
        static let hasRequest = Flags(rawValue: 256)
        // The members that tell the kind of the message.
        static let hasMethod = Flags(rawValue: 512)
        static let hasID = Flags(rawValue: 1024)
        static let hasResult = Flags(rawValue: 2048)
        static let members: Flags = [.hasMethod, .hasID, .hasResult]
    }

    /// The names that tell the kind, with what each says. The place of a name is its bit in `names`.
    private static let words: [(name: StaticString, says: Flags)] = [
        ("method", .hasMethod), ("id", .hasID), ("result", .hasResult), ("error", .hasResult),
    ]

    private var flags = Flags()
    /// Objects and arrays that are open. A deeper text counts as a request.
    private var depth: UInt8 = 0
    /// What the digits of an escape in a name have come to.
    private var scalar: UInt16 = 0
    private var place = Place.before
    /// Before the message: bytes of a byte order mark that have come, which parsers may skip (RFC 8259 §8.1). In a name: digits that an
    /// escape still has.
    private var pending: UInt8 = 0
    /// The words that begin with what has come of the name, a bit each; above them the length of the name.
    private var nameState: UInt8 = 0
    private static let allNames: UInt8 = 0b1111

    /// The body is read as a message.
    var isWanted: Bool { flags.contains(.wanted) }

    /// Nothing of the body has been read yet.
    mutating func begin() { flags.insert(.wanted) }

    /// See `noteBrokenFraming`.
    var hasBrokenFraming: Bool { flags.contains(.brokenFraming) }

    /// The framing of the body is malformed.
    mutating func noteBrokenFraming() { flags.insert(.brokenFraming) }

    /// What has come is a whole message, or a batch, of notifications and responses alone: none of it awaits a reply.
    var isWithoutReply: Bool { place == .behind && flags.contains(.hasMessages) && !flags.contains(.hasRequest) }

    private var names: UInt8 { nameState & Self.allNames }
    private var nameLength: Int { Int(nameState >> 4) }

    /// Of a message's own members: 1, in a batch 2.
    private var memberDepth: UInt8 { flags.contains(.batch) ? 2 : 1 }

    /// One that is neither a notification nor a response counts as a request.
    private var isRequest: Bool { flags.contains(.hasMethod) ? flags.contains(.hasID) : !flags.contains(.hasResult) }

    /// Takes the next bytes of the body.
    mutating func read(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes {
            // A request stays one, and most tell it in their first bytes.
            if flags.contains(.hasRequest) || place == .malformed { return }
            if place == .before, isMark(byte) { continue }
            if flags.contains(.inString) { readString(byte) } else { readStructure(byte) }
        }
    }

    /// Whether the byte is the next one of a byte order mark.
    private mutating func isMark(_ byte: UInt8) -> Bool {
        let next: UInt8 = pending == 0 ? 0xef : pending == 1 ? 0xbb : 0xbf
        guard pending < 3, byte == next else {
            if 1...2 ~= pending { place = .malformed }
            return false
        }
        pending += 1
        return true
    }

    private mutating func readString(_ byte: UInt8) {
        if flags.contains(.inName), pending > 0 { return readDigit(byte) }
        if flags.remove(.escaped) != nil {
            guard flags.contains(.inName) else { return }
            (pending, scalar) = (byte == UInt8(ascii: "u") ? 4 : 0, 0)
            // No name that tells the kind has what the other escapes stand for.
            if pending == 0 { nameState = 0 }
            return
        }
        switch byte {
        case UInt8(ascii: "\\"): flags.insert(.escaped)
        case UInt8(ascii: "\""):
            flags.remove(.inString)
            if flags.contains(.inName) { endName() }
        default:
            if flags.contains(.inName) { extendName(with: byte) }
        }
    }

    private mutating func extendName(with byte: UInt8) {
        guard names != 0 else { return }
        let length = nameLength
        var left = names
        for (index, word) in Self.words.enumerated()
        where length >= word.name.utf8CodeUnitCount || word.name.utf8Start[length] != byte {
            left &= ~(1 << UInt8(index))
        }
        // No word has more than six letters.
        nameState = left == 0 ? 0 : UInt8(length + 1) << 4 | left
    }

    /// A digit of `\u0069` in a name.
    private mutating func readDigit(_ byte: UInt8) {
        let digit: UInt8
        switch byte {
        case 0x30...0x39: digit = byte - 0x30
        case 0x41...0x46, 0x61...0x66: digit = (byte | 0x20) - 0x57
        default: return place = .malformed
        }
        scalar = scalar << 4 | UInt16(digit)
        pending -= 1
        guard pending == 0 else { return }
        if scalar < 0x80 { extendName(with: UInt8(scalar)) } else { nameState = 0 }
    }

    private mutating func endName() {
        flags.remove(.inName)
        for (index, word) in Self.words.enumerated()
        where names & (1 << UInt8(index)) != 0 && nameLength == word.name.utf8CodeUnitCount {
            flags.insert(word.says)
        }
        if flags.isSuperset(of: [.hasMethod, .hasID]) { flags.insert(.hasRequest) }
    }

    private mutating func readStructure(_ byte: UInt8) {
        switch byte {
        case 0x20, 0x09, 0x0a, 0x0d: break
        case UInt8(ascii: "{"), UInt8(ascii: "["): open(isObject: byte == UInt8(ascii: "{"))
        case UInt8(ascii: "}"), UInt8(ascii: "]"): close(isObject: byte == UInt8(ascii: "}"))
        case UInt8(ascii: ","), UInt8(ascii: ":"):
            if depth == 0 { place = .malformed }
            guard depth == memberDepth else { break }
            if byte == UInt8(ascii: ",") { flags.insert(.expectsName) } else { flags.remove(.expectsName) }
        case UInt8(ascii: "\""):
            beginValue()
            flags.insert(.inString)
            if depth == memberDepth, flags.contains(.expectsName) { flags.insert(.inName) }
            flags.remove(.expectsName)
            nameState = Self.allNames
        default: beginValue()
        }
    }

    /// Behind a value there is nothing. A batch has objects alone: other elements get an error.
    private mutating func beginValue() {
        if depth == 0 { place = .malformed }
        if depth < memberDepth { flags.insert(.hasRequest) }
    }

    private mutating func open(isObject: Bool) {
        if depth == 0 {
            guard place == .before else { return place = .malformed }
            (place, pending) = (.inside, 0)
            if !isObject { flags.insert(.batch) }
        } else if depth < memberDepth, !isObject {
            flags.insert(.hasRequest)
        }
        guard depth < .max else { return place = .malformed }
        depth += 1
        guard depth == memberDepth else { return }
        flags.remove(.members)
        flags.insert(.expectsName)
    }

    private mutating func close(isObject: Bool) {
        guard depth > 0 else { return place = .malformed }
        if depth == memberDepth {
            if !isObject { place = .malformed }
            flags.insert(.hasMessages)
            if isRequest { flags.insert(.hasRequest) }
        } else if depth < memberDepth, isObject {
            place = .malformed
        }
        depth -= 1
        if depth == 0, place == .inside { place = .behind }
    }
}
