/// What editors and other programs add to the text of a secret: what is skipped, and what is named.
///
/// A finding names a kind of byte and its place, never a byte of the secret.
package enum SecretText {
    /// What a text may hold.
    package enum Form: Equatable, Sendable {
        /// Visible ASCII: a key, a token, a JWT. Blanks, line ends and NUL bytes around it are no part of it and are skipped.
        case token
        /// JSON, whose reader skips blanks.
        case document
        /// Any text, such as a password. All but a byte order mark and one final line end may be part of it.
        case any
        /// A text whose bytes are used as they are, the byte order mark included: what seals a store.
        case bytes
    }

    /// U+FEFF in UTF-8. Editors write it at the start of a file as a signature (RFC 3629 §6).
    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// Whether the text begins with the byte order mark of UTF-8.
    package static func hasByteOrderMark(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.starts(with: byteOrderMark)
    }

    /// Whether the text begins with a byte order mark of UTF-16 or UTF-32. No UTF-8 does.
    package static func isWide(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.starts(with: [0xff, 0xfe]) || bytes.starts(with: [0xfe, 0xff])
            || bytes.starts(with: [0x00, 0x00, 0xfe, 0xff])
    }

    /// What is wrong with a text that `isWide`, with the remedy.
    package static let wideMessage =
        "is text in UTF-16: save it as UTF-8 (in PowerShell: Set-Content -NoNewline -Encoding utf8)"

    /// The range of a secret without a byte order mark at the start and one line end at the end.
    package static func rangeOfText(_ bytes: UnsafeRawBufferPointer) -> Range<Int> {
        let start = hasByteOrderMark(bytes) ? byteOrderMark.count : 0
        return start..<max(start, endOfText(bytes))
    }

    /// The end of the text without one line end.
    private static func endOfText(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard bytes.last == UInt8(ascii: "\n") else { return bytes.count }
        let end = bytes.count - 1
        return end > 0 && bytes[end - 1] == UInt8(ascii: "\r") ? end - 1 : end
    }

    /// The secret without one final line end.
    package static func withoutLineEnd(_ secret: Secret) -> Secret {
        secret.withBytes { bytes in
            let end = endOfText(bytes)
            return end == bytes.count ? secret : Secret(copying: UnsafeRawBufferPointer(rebasing: bytes[..<end]))
        }
    }

    /// The secret without a byte order mark and one final line end.
    package static func text(of secret: Secret) -> Secret {
        secret.withBytes { bytes in
            let range = rangeOfText(bytes)
            return range == 0..<bytes.count ? secret : Secret(copying: UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
    }

    /// The token in a text of a secret: without what stands around it.
    package static func token(in secret: Secret) -> Secret {
        secret.withBytes { bytes in
            var range = rangeOfText(bytes)
            while let first = range.first, isPadding(bytes[first]) { range.removeFirst() }
            while let last = range.last, isPadding(bytes[last]) { range.removeLast() }
            return range == 0..<bytes.count ? secret : Secret(copying: UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
    }

    /// The secret in its form: `token` without what stands around it, others as they are.
    package static func content(of secret: Secret, as form: Form) -> Secret {
        form == .token ? token(in: secret) : secret
    }

    /// Blanks, control bytes of ASCII such as line ends and NUL, and DEL.
    private static func isPadding(_ byte: UInt8) -> Bool { byte <= 0x20 || byte == 0x7f }

    // MARK: Findings

    /// What looks as if an editor or another program had added it, and was not skipped; nil: nothing. It follows the name of the file:
    /// `ends with a blank`.
    ///
    /// - Parameter bytes: what remains when everything is skipped that is to be skipped for `form`.
    package static func finding(in bytes: UnsafeRawBufferPointer, as form: Form) -> String? {
        if isWide(bytes) { return "is text in UTF-16" }
        if form == .bytes {
            if hasByteOrderMark(bytes) { return "begins with a byte order mark" }
            // Random bytes hold anything.
            guard bytes.allSatisfy({ $0 >= 0x20 || $0 == 0x0a || $0 == 0x0d || $0 == 0x09 }) else { return nil }
        }
        if let nul = bytes.firstIndex(of: 0) { return "has a NUL byte at byte \(nul), as text in UTF-16 has" }
        return switch form {
        case .token: tokenFinding(bytes)
        case .document: nil
        case .any: encodingFinding(bytes) ?? textFinding(bytes)
        case .bytes: textFinding(bytes)
        }
    }

    /// The same for a secret.
    package static func finding(in secret: Secret, as form: Form) -> String? {
        secret.withBytes { finding(in: $0, as: form) }
    }

    private static func textFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        edgeFinding(bytes) ?? lineFinding(bytes) ?? characterFinding(bytes) ?? quoteFinding(bytes)
    }

    /// Services take passwords as UTF-8 alone (RFC 8259 §8.1, RFC 6749 appendix B).
    private static func encodingFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        placeOfNoUTF8(in: bytes).map {
            "is not UTF-8 text at byte \($0), and would be sent to no service: save it as UTF-8"
        }
    }

    /// The first byte that is none of UTF-8; nil: the text is UTF-8.
    package static func placeOfNoUTF8(in bytes: UnsafeRawBufferPointer) -> Int? {
        var (parser, rest, offset) = (Unicode.UTF8.ForwardParser(), bytes.makeIterator(), 0)
        while true {
            switch parser.parseScalar(from: &rest) {
            case .valid(let units): offset += units.count
            case .emptyInput: return nil
            case .error: return offset
            }
        }
    }

    private static func tokenFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        if let finding = wrapperFinding(bytes) ?? lineFinding(bytes) { return finding }
        if let blank = bytes.firstIndex(where: { $0 == 0x20 || $0 == 0x09 }) { return "has a blank at byte \(blank)" }
        if let finding = characterFinding(bytes) ?? quoteFinding(bytes) { return finding }
        return bytes.firstIndex { $0 >= 0x80 }.map { "has a character at byte \($0) that is not ASCII" }
    }

    private static let sign = UInt8(ascii: "=")

    /// What other programs write around a token.
    private static func wrapperFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        if bytes.first == UInt8(ascii: "{") || bytes.first == UInt8(ascii: "[") { return "is JSON" }
        if bytes.prefix(7).map({ $0 | 0x20 }).elementsEqual("bearer ".utf8) { return "begins with the word Bearer" }
        let name = bytes.prefix { isNameByte($0) }
        // Base64 has this sign at its end only.
        let rest = bytes[name.endIndex...]
        let isAssigned = !name.isEmpty && rest.count > 2 && rest.first == sign && rest.dropFirst().first != sign
        return isAssigned ? "begins with a name and an equals sign" : nil
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "_"): true
        default: false
        }
    }

    private static func edgeFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        switch bytes.last {
        case UInt8(ascii: "\n"): return "ends with an empty line"
        case UInt8(ascii: "\r"): return "ends with a carriage return"
        case 0x20, 0x09: return "ends with a blank"
        default: break
        }
        switch bytes.first {
        case UInt8(ascii: "\n"), UInt8(ascii: "\r"): return "begins with an empty line"
        case 0x20, 0x09: return "begins with a blank"
        default: return nil
        }
    }

    private static func lineFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        let isLineEnd = { (byte: UInt8) in byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }
        return bytes.contains(where: isLineEnd) ? "has more than one line" : nil
    }

    /// Control characters, and characters that show nothing.
    private static func characterFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        for (index, byte) in bytes.enumerated() {
            if byte < 0x20 || byte == 0x7f { return "has a control character at byte \(index)" }
            guard byte >= 0xc2 else { continue }
            let next = { (step: Int) -> UInt32 in index + step < bytes.count ? UInt32(bytes[index + step] & 0x3f) : 0 }
            let code: UInt32 =
                byte < 0xe0
                ? UInt32(byte & 0x1f) << 6 | next(1)
                : byte < 0xf0 ? UInt32(byte & 0x0f) << 12 | next(1) << 6 | next(2) : 0
            if isInvisible(code) {
                return "has an invisible character (U+\(hex(code))) at byte \(index)"
            }
        }
        return nil
    }

    /// Characters of controls, blanks and directions that are copied along from pages and documents.
    private static func isInvisible(_ code: UInt32) -> Bool {
        switch code {
        case 0x80...0xa0, 0xad, 0x1680, 0x180e, 0x2000...0x200f, 0x2028...0x202f, 0x205f...0x206f, 0x3000, 0xfeff: true
        default: false
        }
    }

    private static func hex(_ code: UInt32) -> String {
        let digits = String(code, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(4 - digits.count, 0)) + digits
    }

    private static func quoteFinding(_ bytes: UnsafeRawBufferPointer) -> String? {
        guard bytes.count >= 2, let first = bytes.first, first == bytes.last else { return nil }
        let quotes = [UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: "`")]
        return quotes.contains(first) ? "is in quotation marks" : nil
    }
}
