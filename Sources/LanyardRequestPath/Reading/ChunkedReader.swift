/// Reads a chunked body, resumable at each byte (http-requests.md 6, RFC 9112 §7.1).
///
/// Extensions are parsed by their grammar and dropped. Trailers are checked, and their offsets are reported.
package struct ChunkedReader {
    /// The meaning of the next bytes.
    package enum Piece: Equatable {
        /// Body bytes, at these offsets of the buffer.
        case data(Range<Int>)
        /// All bytes of the buffer were read.
        case needsMore
        /// The body is complete: last chunk, trailer section and empty line were read.
        case end
    }

    private enum State: UInt8 {
        case size, extensionStart, extensionName, extensionAfterName, extensionValueStart, extensionToken,
            extensionQuoted
        case extensionEscape, extensionQuotedEnd, extensionAfterValue, sizeLineFeed, data, dataReturn, dataLineFeed,
            trailers, done
    }

    /// A size of 16 digits and its extensions. Extensions in use are signatures of about 100 bytes.
    private static let sizeLineBytesMax: Int32 = 4 << 10
    /// Bytes of extensions beyond those that the data accounts for: each chunk accounts for 16 bytes and twice its size. So a body of any
    /// length may have them, and one that is mostly extensions ends.
    private static let extensionBytesMax: Int32 = 16 << 10
    private static let extensionBytesOfChunk = 16

    // An idle connection has two of these readers: the fields are as small, and in the order, that makes the least of them.

    private var state = State.size
    private var digits: UInt8 = 0
    /// Blanks may stand before the end of a size line.
    private let takesTrailingBlanks: Bool
    private var lineBytes: Int32 = 0
    private var extensionBytes: Int32 = 0
    private var left: UInt64 = 0
    private var trailers = FieldSectionReader()
    /// The offsets of trailer bytes in the last `gather`, including the empty line.
    package var trailerBytes: Range<Int> { Int(trailerStart)..<Int(trailerEnd) }
    private var trailerStart: Int32 = 0
    private var trailerEnd: Int32 = 0
    private let trailerLimits: TrailerLimits

    /// - Parameters:
    ///   - takesTrailingBlanks: blanks may stand before the end of a size line. The grammar has none there, and several
    ///     server libraries pad sizes with them. In requests they would be a smuggling gap (http-requests.md 6.1).
    ///   - limits: of the trailer section.
    package init(takesTrailingBlanks: Bool = false, trailers limits: HeadLimits = .trailers) {
        self.takesTrailingBlanks = takesTrailingBlanks
        trailerLimits = TrailerLimits(limits)
    }

    package var isDone: Bool { state == .done }

    /// One read is far shorter than 2 GiB.
    private mutating func setTrailerBytes(_ place: Range<Int>) {
        trailerStart = Int32(truncatingIfNeeded: place.lowerBound)
        trailerEnd = Int32(truncatingIfNeeded: place.upperBound)
    }

    /// Continues at `position`, which it advances. Call it until it returns `.needsMore` or `.end`.
    ///
    /// - Throws: `malformed`, or `fieldsTooLarge` for trailers beyond their limits: the sender of the body is at fault. Nothing after it
    ///   can be read as HTTP.
    package mutating func next(_ bytes: Bytes, from position: inout Int) throws(HeadError) -> Piece {
        while position < bytes.count {
            switch state {
            case .data:
                let count = Int(min(left, UInt64(bytes.count - position)))
                let piece = position..<(position + count)
                position += count
                left -= UInt64(count)
                if left == 0 { state = .dataReturn }
                return .data(piece)
            case .trailers:
                let start = position
                defer { setTrailerBytes(start..<position) }
                guard try trailers.read(bytes, from: &position, into: nil, limits: trailerLimits.ofHead) else {
                    return .needsMore
                }
                state = .done
                return .end
            case .done: return .end
            case .dataReturn:
                guard bytes[position] == 0x0d else { throw .malformed("chunk data not followed by CRLF") }
                state = .dataLineFeed
                position += 1
            case .dataLineFeed:
                guard bytes[position] == 0x0a else { throw .malformed("chunk data not followed by CRLF") }
                (state, digits, lineBytes) = (.size, 0, 0)
                position += 1
            default:
                try readSizeLine(bytes[position])
                position += 1
            }
        }
        return state == .done ? .end : .needsMore
    }

    private mutating func readSizeLine(_ byte: UInt8) throws(HeadError) {
        lineBytes += 1
        guard lineBytes <= Self.sizeLineBytesMax else { throw .malformed("a chunk-size line is too long") }
        switch state {
        case .size: try readSize(byte)
        case .sizeLineFeed:
            guard byte == 0x0a else { throw .malformed("a chunk-size line does not end in CRLF") }
            let accounted = min(left, UInt64(Self.extensionBytesMax)) * 2 + UInt64(Self.extensionBytesOfChunk)
            extensionBytes = max(0, extensionBytes - Int32(accounted))
            state = left == 0 ? .trailers : .data
        case .extensionAfterValue where takesTrailingBlanks && (byte == 0x0d || ByteClass.isSpace(byte)):
            // Padding is no extension: only the length of the line limits it.
            if byte == 0x0d { state = .sizeLineFeed }
        default:
            extensionBytes += 1
            guard extensionBytes <= Self.extensionBytesMax else { throw .malformed("chunk extensions are too long") }
            try readExtension(byte)
        }
    }

    private mutating func readSize(_ byte: UInt8) throws(HeadError) {
        if let digit = ByteClass.hexValue(byte) {
            digits += 1
            guard digits <= 16 else { throw .malformed("a chunk size of more than 16 digits") }
            left = (digits == 1 ? 0 : left) << 4 | UInt64(digit)
            return
        }
        guard digits > 0 else { throw .malformed("a chunk size that is not hexadecimal") }
        guard left <= UInt64(Int64.max) else { throw .malformed("a chunk size beyond 2^63-1") }
        switch byte {
        case 0x0d: state = .sizeLineFeed
        case UInt8(ascii: ";"): state = .extensionStart
        case 0x20, 0x09: state = .extensionAfterValue
        default: throw .malformed("a chunk size that is not hexadecimal")
        }
    }

    /// `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`: white space is allowed only before `;`, `=`
    /// and what follows them.
    private mutating func readExtension(_ byte: UInt8) throws(HeadError) {
        let isSpace = ByteClass.isSpace(byte)
        let isToken = ByteClass.isToken(byte)
        switch state {
        case .extensionStart where isSpace, .extensionAfterName where isSpace, .extensionValueStart where isSpace,
            .extensionAfterValue where isSpace:
            break
        case .extensionStart where isToken, .extensionName where isToken: state = .extensionName
        case .extensionName where isSpace: state = .extensionAfterName
        case .extensionName where byte == UInt8(ascii: "="), .extensionAfterName where byte == UInt8(ascii: "="):
            state = .extensionValueStart
        case .extensionValueStart where byte == UInt8(ascii: "\""): state = .extensionQuoted
        case .extensionValueStart where isToken, .extensionToken where isToken: state = .extensionToken
        case .extensionToken where isSpace, .extensionQuotedEnd where isSpace: state = .extensionAfterValue
        case .extensionQuoted where byte == UInt8(ascii: "\""): state = .extensionQuotedEnd
        case .extensionQuoted where byte == UInt8(ascii: "\\"): state = .extensionEscape
        case .extensionQuoted where ByteClass.isValue(byte): break
        case .extensionEscape where ByteClass.isValue(byte): state = .extensionQuoted
        case .extensionName where byte == UInt8(ascii: ";"), .extensionAfterName where byte == UInt8(ascii: ";"),
            .extensionToken where byte == UInt8(ascii: ";"), .extensionQuotedEnd where byte == UInt8(ascii: ";"),
            .extensionAfterValue where byte == UInt8(ascii: ";"):
            state = .extensionStart
        case .extensionAfterName where byte == 0x0d && takesTrailingBlanks: state = .sizeLineFeed
        case .extensionName where byte == 0x0d, .extensionToken where byte == 0x0d,
            .extensionQuotedEnd where byte == 0x0d:
            state = .sizeLineFeed
        default: throw .malformed("a malformed chunk extension")
        }
    }
}

/// The limits of a trailer section in less room than `HeadLimits`.
private struct TrailerLimits {
    private let fieldLineBytesMax: Int32
    private let sectionBytesMax: Int32
    private let fieldsMax: Int32

    init(_ limits: HeadLimits) {
        fieldLineBytesMax = Int32(clamping: limits.fieldLineBytesMax)
        sectionBytesMax = Int32(clamping: limits.sectionBytesMax)
        fieldsMax = Int32(clamping: limits.fieldsMax)
    }

    var ofHead: HeadLimits {
        HeadLimits(
            startLineBytesMax: 0, fieldLineBytesMax: Int(fieldLineBytesMax), sectionBytesMax: Int(sectionBytesMax),
            fieldsMax: Int(fieldsMax))
    }
}

extension ChunkedReader {
    /// Continues at `position` to the end of `bytes` or of the body, and moves the data together at the front of
    /// `bytes`.
    ///
    /// - Returns: the number of data bytes there.
    /// - Throws: as `next` does.
    package mutating func gather(
        _ bytes: UnsafeMutableRawBufferPointer, from position: inout Int
    ) throws(HeadError) -> Int {
        let input = UnsafeRawBufferPointer(bytes).assumingMemoryBound(to: UInt8.self)
        var count = 0
        setTrailerBytes(0..<0)
        while case .data(let piece) = try next(input, from: &position) {
            let target = bytes.baseAddress! + count
            target.copyMemory(from: bytes.baseAddress! + piece.lowerBound, byteCount: piece.count)
            count += piece.count
        }
        return count
    }
}
