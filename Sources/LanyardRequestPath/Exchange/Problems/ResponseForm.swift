import LanyardFoundations

/// The form of a response of Lanyard's own (http-connections.md 19.5). Clients of MCP show no other than an error of JSON-RPC.
enum ResponseForm {
    case problem, jsonRPC

    /// The media type of the body.
    var contentType: String {
        switch self {
        case .problem: ProblemDetail.contentType
        case .jsonRPC: "application/json"
        }
    }
}

/// What a client of JSON-RPC has sent, read as its bytes come: whether a reply to it has an id to refer to.
///
/// It keeps no byte. The JSON is read as far as this needs it: an error of its grammar elsewhere is not found.
struct JSONRPCMessage {
    private enum Place { case before, inside, behind, malformed }

    /// The members that tell the kind of a message.
    private struct Members {
        var hasMethod = false
        var hasID = false
        var hasResult = false

        /// One that is neither a notification nor a response counts as a request.
        var isRequest: Bool { hasMethod ? hasID : !hasResult }
    }

    /// Of a member's name; longer ones say nothing.
    private static let nameBytesMax = 8

    private var place = Place.before
    /// Objects and arrays that are open.
    private var depth = 0
    /// Of a message's own members: 1, in a batch 2.
    private var memberDepth = 1
    private var members = Members()
    private var isInString = false
    private var isEscaped = false
    /// The next string at `memberDepth` is a name.
    private var expectsName = false
    /// The string is a name: its bytes so far, and their number.
    private var isName = false
    private var name: UInt64 = 0
    private var nameLength = 0
    /// Hexadecimal digits that the escape in a name still has, and what came of it so far.
    private var digitsLeft = 0
    private var scalar: UInt32 = 0
    /// Bytes of a byte order mark that have come. Parsers may skip one (RFC 8259 §8.1).
    private var markLength = 0
    private var hasMessages = false
    private var hasRequest = false

    /// What has come is a whole message, or a batch, of notifications and responses alone: none of it awaits a reply.
    var isWithoutReply: Bool { place == .behind && hasMessages && !hasRequest }

    /// Takes the next bytes of the body.
    mutating func read(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes {
            // A request stays one, and most tell it in their first bytes.
            if hasRequest || place == .malformed { return }
            if place == .before, isMark(byte) { continue }
            if isInString { readString(byte) } else { readStructure(byte) }
        }
    }

    /// Whether the byte is the next one of a byte order mark.
    private mutating func isMark(_ byte: UInt8) -> Bool {
        let next: UInt8 = markLength == 0 ? 0xef : markLength == 1 ? 0xbb : 0xbf
        guard markLength < 3, byte == next else {
            if 1...2 ~= markLength { place = .malformed }
            return false
        }
        markLength += 1
        return true
    }

    private mutating func readString(_ byte: UInt8) {
        if digitsLeft > 0 { return readDigit(byte) }
        if isEscaped {
            isEscaped = false
            // No name that tells the kind has what the other escapes stand for.
            if isName { (digitsLeft, scalar) = (byte == UInt8(ascii: "u") ? 4 : 0, 0) }
            if isName, digitsLeft == 0 { nameLength = Self.nameBytesMax + 1 }
            return
        }
        switch byte {
        case UInt8(ascii: "\\"): isEscaped = true
        case UInt8(ascii: "\""):
            isInString = false
            if isName { endName() }
        default:
            if isName { extendName(with: byte) }
        }
    }

    private mutating func extendName(with byte: UInt8) {
        guard nameLength <= Self.nameBytesMax else { return }
        name = name << 8 | UInt64(byte)
        nameLength += 1
    }

    /// A digit of `\u0069` in a name.
    private mutating func readDigit(_ byte: UInt8) {
        let digit: UInt8
        switch byte {
        case 0x30...0x39: digit = byte - 0x30
        case 0x41...0x46, 0x61...0x66: digit = (byte | 0x20) - 0x57
        default: return place = .malformed
        }
        scalar = scalar << 4 | UInt32(digit)
        digitsLeft -= 1
        guard digitsLeft == 0 else { return }
        if scalar < 0x80 { extendName(with: UInt8(scalar)) } else { nameLength = Self.nameBytesMax + 1 }
    }

    private mutating func endName() {
        isName = false
        guard nameLength <= Self.nameBytesMax else { return }
        switch name {
        case Self.word("method"): members.hasMethod = true
        case Self.word("id"): members.hasID = true
        case Self.word("result"), Self.word("error"): members.hasResult = true
        default: break
        }
        if members.hasMethod, members.hasID { hasRequest = true }
    }

    @inline(__always)
    private static func word(_ text: StaticString) -> UInt64 {
        var word: UInt64 = 0
        for index in 0..<text.utf8CodeUnitCount { word = word << 8 | UInt64(text.utf8Start[index]) }
        return word
    }

    private mutating func readStructure(_ byte: UInt8) {
        switch byte {
        case 0x20, 0x09, 0x0a, 0x0d: break
        case UInt8(ascii: "{"), UInt8(ascii: "["): open(isObject: byte == UInt8(ascii: "{"))
        case UInt8(ascii: "}"), UInt8(ascii: "]"): close(isObject: byte == UInt8(ascii: "}"))
        case UInt8(ascii: ","), UInt8(ascii: ":"):
            if depth == 0 { place = .malformed }
            if depth == memberDepth { expectsName = byte == UInt8(ascii: ",") }
        case UInt8(ascii: "\""):
            beginValue()
            isInString = true
            isName = depth == memberDepth && expectsName
            expectsName = false
            (name, nameLength) = (0, 0)
        default: beginValue()
        }
    }

    /// Behind a value there is nothing. A batch has objects alone: other elements get an error.
    private mutating func beginValue() {
        if depth == 0 { place = .malformed }
        if depth < memberDepth { hasRequest = true }
    }

    private mutating func open(isObject: Bool) {
        if depth == 0 {
            guard place == .before else { return place = .malformed }
            place = .inside
            memberDepth = isObject ? 1 : 2
        } else if depth < memberDepth, !isObject {
            hasRequest = true
        }
        depth += 1
        guard depth == memberDepth else { return }
        members = Members()
        expectsName = true
    }

    private mutating func close(isObject: Bool) {
        guard depth > 0 else { return place = .malformed }
        if depth == memberDepth {
            if !isObject { place = .malformed }
            hasMessages = true
            if members.isRequest { hasRequest = true }
        } else if depth < memberDepth, isObject {
            place = .malformed
        }
        depth -= 1
        if depth == 0, place == .inside { place = .behind }
    }
}
