/// The places of the URI references in a `Link` value: each target, and each `anchor` (RFC 8288 §3, §3.2).
///
/// Behind what has not the form of a parameter the next link counts. What is no link ends the reading: the rest is not changed.
struct LinkReferences: IteratorProtocol {
    private enum State {
        /// Before a link's target.
        case link
        /// Behind a target or a parameter.
        case parameters
        case end
    }

    private let value: Bytes
    private var position = 0
    private var state = State.link

    init(_ value: Bytes) { self.value = value }

    mutating func next() -> Range<Int>? {
        while true {
            switch state {
            case .end: return nil
            case .link:
                skip { ByteClass.isSpace($0) || $0 == UInt8(ascii: ",") }
                guard current == UInt8(ascii: "<"), let end = place(of: UInt8(ascii: ">"), from: position) else {
                    state = .end
                    return nil
                }
                let start = position + 1
                (position, state) = (end + 1, .parameters)
                return start..<end
            case .parameters:
                if let anchor = readParameter() { return anchor }
            }
        }
    }

    /// Reads one parameter. Returns the reference of an `anchor`.
    private mutating func readParameter() -> Range<Int>? {
        skip(ByteClass.isSpace)
        guard let byte = current else {
            state = .end
            return nil
        }
        position += 1
        if byte == UInt8(ascii: ",") { state = .link }
        guard byte == UInt8(ascii: ";") else {
            if byte != UInt8(ascii: ",") { skipToNextLink() }
            return nil
        }
        skip(ByteClass.isSpace)
        let start = position
        skip(ByteClass.isToken)
        let isAnchor = value[run: start..<position].equals(lowered: "anchor")
        skip(ByteClass.isSpace)
        guard current == UInt8(ascii: "=") else { return nil }
        position += 1
        skip(ByteClass.isSpace)
        let content = readContent()
        return isAnchor ? content : nil
    }

    /// Behind something that is no parameter: clients that split at commas follow the next link all the same.
    private mutating func skipToNextLink() {
        while let byte = current {
            if byte == UInt8(ascii: "\"") {
                _ = readContent()
            } else {
                position += 1
                if byte == UInt8(ascii: ",") { return state = .link }
            }
        }
        state = .end
    }

    /// Reads a quoted string or a token. A quoted string with an escape is no reference.
    private mutating func readContent() -> Range<Int>? {
        guard current == UInt8(ascii: "\"") else {
            let start = position
            skip { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",") && !ByteClass.isSpace($0) }
            return start..<position
        }
        position += 1
        let start = position
        var hasEscape = false
        while let byte = current, byte != UInt8(ascii: "\"") {
            if byte == UInt8(ascii: "\\") {
                hasEscape = true
                position += 1
            }
            position += 1
        }
        guard position < value.count else {
            state = .end
            return nil
        }
        position += 1
        return hasEscape ? nil : start..<(position - 1)
    }

    private var current: UInt8? { position < value.count ? value[position] : nil }

    private mutating func skip(_ isSkipped: (UInt8) -> Bool) {
        while let byte = current, isSkipped(byte) { position += 1 }
    }

    private func place(of byte: UInt8, from start: Int) -> Int? { value[start...].firstIndex(of: byte) }
}

/// The value of `Refresh`, as browsers read it: `5; url=/next` (HTML, "shared declarative refresh steps").
enum RefreshValue {
    /// The place of the reference; nil: there is none.
    static func reference(in value: Bytes) -> Range<Int>? {
        var position = 0
        func skip(_ isSkipped: (UInt8) -> Bool) {
            while position < value.count, isSkipped(value[position]) { position += 1 }
        }
        skip(ByteClass.isSpace)
        skip { ByteClass.isDigit($0) || $0 == UInt8(ascii: ".") }
        guard position > 0, position < value.count else { return nil }
        let separator = value[position]
        guard separator == UInt8(ascii: ";") || separator == UInt8(ascii: ",") || ByteClass.isSpace(separator) else {
            return nil
        }
        skip(ByteClass.isSpace)
        if position < value.count, value[position] == UInt8(ascii: ";") || value[position] == UInt8(ascii: ",") {
            position += 1
        }
        skip(ByteClass.isSpace)
        let begin = position
        if value[run: position..<value.count].hasPrefix(lowered: "url") {
            position += 3
            skip(ByteClass.isSpace)
            if position < value.count, value[position] == UInt8(ascii: "=") {
                position += 1
                skip(ByteClass.isSpace)
            } else {
                position = begin
            }
        }
        guard position < value.count else { return nil }
        let quote = value[position]
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { return position..<value.count }
        let start = position + 1
        let end = value[start...].firstIndex(of: quote) ?? value.count
        return start..<end
    }
}
