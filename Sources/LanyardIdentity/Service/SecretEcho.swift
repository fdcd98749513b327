import LanyardFoundations

/// Finds a secret of a call in a text that came back, whole or cut, in each form in which servers write it. Such secrets are what the
/// request has carried, and the tokens of its response.
///
/// Every text of a service passes here before it becomes a part of a message, a code, a scope or a name (security.md, T11).
///
/// The text is compared in several readings: as it came, and with the escapes of URLs, forms, JSON and HTML undone, three times at most.
/// The text without its separators, and backwards, are further readings. Each run of Base64, Base32 or hexadecimal digits is decoded as
/// well. Upper and lower case do not differ. Everything is compared as bytes.
struct SecretEcho {
    /// So many bytes of a secret give it away. A shorter secret is looked for as a whole.
    static let pieceBytes = 8
    /// A longer text counts as an echo.
    static let textBytesMax = 64 << 10
    /// More bytes of secrets count as found: their pieces would take too much memory.
    private static let secretBytesMax = 256 << 10
    private static let readingsMax = 48
    private static let depthMax = 3

    /// Of this comparison: without it no piece can be read from the memory that `pieces` had.
    private let key = UInt64.random(in: 1 ... .max)
    private var pieces: Set<UInt64> = []
    private var shortSecrets: [Secret] = []
    private let isTooMuch: Bool

    /// - Parameters:
    ///   - sent: what the request has carried.
    ///   - response: its tokens count, too.
    init(of sent: [Secret], and response: CurlResponse) {
        self.init(of: sent + response.body.withBytes { ServiceErrorText.tokens(in: $0) })
    }

    init(of secrets: [Secret]) {
        isTooMuch = secrets.reduce(0) { $0 + $1.count } > Self.secretBytesMax
        guard !isTooMuch else { return }
        let key = key
        var marks = Set<UInt64>(minimumCapacity: secrets.reduce(0) { $0 + $1.count })
        for secret in secrets where secret.count > 0 {
            if secret.count < Self.pieceBytes { shortSecrets.append(secret) }
            secret.withBytes { bytes in
                _ = Self.hasPiece(bytes, key) { mark in
                    marks.insert(mark)
                    return false
                }
            }
        }
        pieces = marks
    }

    /// Finds whole secrets alone, for a text that a login needs: a piece may be in an address or an id by chance.
    init(ofWhole secrets: [Secret]) {
        isTooMuch = false
        shortSecrets = secrets.filter { $0.count >= Self.pieceBytes }
    }

    init(ofWhole sent: [Secret], and response: CurlResponse) {
        self.init(ofWhole: sent + response.body.withBytes { ServiceErrorText.tokens(in: $0) })
    }

    /// How secrets are looked for that are shorter than a piece.
    enum ShortSecrets {
        /// At each place.
        case anywhere
        /// As a word of their own, or as the whole of what was encoded. A name that a call's meaning depends on would have the letters of
        /// many a short password by chance.
        case words
    }

    /// The same for a name: a code, a scope, a type, an address.
    func isIn(name: String) -> Bool { Array(name.utf8).withUnsafeBytes { isIn($0, shortSecrets: .words) } }

    /// The same for a text at each of whose places a secret counts.
    func isIn(text: String) -> Bool { Array(text.utf8).withUnsafeBytes { isIn($0) } }

    /// Whether the text has a secret, or a piece of one.
    func isIn(_ text: UnsafeRawBufferPointer, shortSecrets rule: ShortSecrets = .anywhere) -> Bool {
        guard !isTooMuch, text.count <= Self.textBytesMax else { return true }
        guard !pieces.isEmpty || !shortSecrets.isEmpty else { return false }
        var readings = [
            Secret(copying: text), Self.backwards(text), Self.spelled(text), Self.joined(text, keepingSigns: true),
            Self.joined(text, keepingSigns: false),
        ]
        var (place, levelEnd, depth) = (0, readings.count, 0)
        while place < readings.count {
            if readings[place].withBytes({ isInReading($0, rule) }) { return true }
            if depth < Self.depthMax {
                let more = readings[place].withBytes { bytes in TextEscapes.allCases.compactMap { $0.undone(bytes) } }
                for reading in more where !readings.contains(reading) { readings.append(reading) }
                guard readings.count <= Self.readingsMax else { return true }
            }
            place += 1
            if place == levelEnd { (levelEnd, depth) = (readings.count, depth + 1) }
        }
        return false
    }

    private func isInReading(_ text: UnsafeRawBufferPointer, _ rule: ShortSecrets) -> Bool {
        isPlain(text, rule) || isInRuns(text, ofHex: true, rule) || isInRuns(text, ofHex: false, rule)
            || isInBase32(text)
    }

    /// Without what may stand between letters one by one, or between pairs of digits.
    private static func joined(_ text: UnsafeRawBufferPointer, keepingSigns: Bool) -> Secret {
        var buffer = SecretBuffer(capacity: text.count + 1)
        for byte in text {
            let isKept = isAlphanumeric(byte) || keepingSigns && !" ,:;|\t\r\n".utf8.contains(byte)
            if isKept { buffer.append(byte) }
        }
        return buffer.seal()
    }

    /// Letter by letter, with a separator behind each: blanks of the secret stay.
    private static func spelled(_ text: UnsafeRawBufferPointer) -> Secret {
        let isSeparator = { (place: Int) in place >= text.count || " ,:;|-.".utf8.contains(text[place]) }
        var buffer = SecretBuffer(capacity: text.count + 1)
        var place = 0
        while place < text.count {
            buffer.append(text[place])
            place += isSeparator(place + 1) && isSeparator(place + 3) ? 2 : 1
        }
        return buffer.seal()
    }

    private static func backwards(_ text: UnsafeRawBufferPointer) -> Secret {
        var buffer = SecretBuffer(capacity: text.count + 1)
        for byte in text.reversed() { buffer.append(byte) }
        return buffer.seal()
    }

    /// RFC 4648 §6, in either case. Of a cut run the decoding begins at each of its first eight digits.
    private func isInBase32(_ text: UnsafeRawBufferPointer) -> Bool {
        var start = 0
        for end in 0...text.count {
            guard end == text.count || Self.base32Value(text[end]) == nil else { continue }
            let run = text[start..<end]
            start = end + 1
            // Of 13 digits on they may stand for a piece.
            guard run.count >= 13 else { continue }
            for phase in 0..<8 {
                var buffer = SecretBuffer(capacity: run.count)
                var (bits, count) = (0, 0)
                for byte in run.dropFirst(phase) {
                    (bits, count) = ((bits << 5 | Int(Self.base32Value(byte) ?? 0)) & 0xfff, count + 5)
                    guard count >= 8 else { continue }
                    count -= 8
                    buffer.append(UInt8(bits >> count & 0xff))
                }
                let decoded = buffer.seal()
                if decoded.withBytes({ Self.hasPiece($0, key) { pieces.contains($0) } }) { return true }
            }
        }
        return false
    }

    private static func base32Value(_ byte: UInt8) -> UInt8? {
        switch folded(byte) {
        case 0x61...0x7a: folded(byte) - 0x61
        case 0x32...0x37: byte - 0x32 + 26
        default: nil
        }
    }

    private func isPlain(_ text: UnsafeRawBufferPointer, _ rule: ShortSecrets) -> Bool {
        Self.hasPiece(text, key) { pieces.contains($0) }
            || shortSecrets.contains { secret in secret.withBytes { Self.contains(text, $0, asWord: rule == .words) } }
    }

    /// Digits that may stand for a piece: each run is decoded from each of its first places, because it may be cut.
    private func isInRuns(_ text: UnsafeRawBufferPointer, ofHex: Bool, _ rule: ShortSecrets) -> Bool {
        // A short secret may stand in digits on its own.
        let digitsMin = ofHex ? 4 : 3
        var start = 0
        for end in 0...text.count {
            let isDigit = end < text.count && (ofHex ? Self.hexValue(text[end]) != nil : Base64.isDigit(text[end]))
            guard !isDigit else { continue }
            let run = text[start..<end]
            start = end + 1
            guard run.count >= digitsMin else { continue }
            for phase in 0..<(ofHex ? 2 : 4) {
                let digits = run.dropFirst(phase)
                guard let decoded = ofHex ? Self.hexDecoded(digits) : Base64.decoded(digits) else { continue }
                if decoded.withBytes({ isPlainOrEncoded($0, rule) }) { return true }
            }
        }
        return false
    }

    /// A form in Base64, for example.
    private func isPlainOrEncoded(_ text: UnsafeRawBufferPointer, _ rule: ShortSecrets) -> Bool {
        if rule == .words {
            return Self.hasPiece(text, key) { pieces.contains($0) }
                || shortSecrets.contains { $0.equals(text) }
                || TextEscapes.form.undone(text)?.withBytes { bytes in Self.hasPiece(bytes, key) { pieces.contains($0) }
                }
                    == true
        }
        return isPlain(text, rule) || TextEscapes.form.undone(text)?.withBytes { isPlain($0, rule) } == true
    }

    /// Calls `isMeant` with the mark of each piece until one is meant.
    private static func hasPiece(
        _ bytes: UnsafeRawBufferPointer, _ key: UInt64, _ isMeant: (UInt64) -> Bool
    ) -> Bool {
        guard bytes.count >= pieceBytes else { return false }
        var piece: UInt64 = 0
        for (place, byte) in bytes.enumerated() {
            piece = piece << 8 | UInt64(folded(byte))
            if place >= pieceBytes - 1, isMeant(mark(piece, key)) { return true }
        }
        return false
    }

    private static func mark(_ piece: UInt64, _ key: UInt64) -> UInt64 {
        let mixed = (piece ^ key) &* 0x9e37_79b9_7f4a_7c15
        return mixed ^ mixed >> 32
    }

    private static func contains(
        _ text: UnsafeRawBufferPointer, _ secret: UnsafeRawBufferPointer, asWord: Bool
    ) -> Bool {
        guard secret.count <= text.count else { return false }
        let isInWord = { (place: Int) in text.indices.contains(place) && isAlphanumeric(text[place]) }
        return (0...(text.count - secret.count)).contains { start in
            secret.indices.allSatisfy { folded(text[start + $0]) == folded(secret[$0]) }
                && !(asWord && (isInWord(start - 1) || isInWord(start + secret.count)))
        }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x41...0x5a ~= byte || 0x61...0x7a ~= byte
    }

    private static func folded(_ byte: UInt8) -> UInt8 { 0x41...0x5a ~= byte ? byte + 0x20 : byte }

    private static func hexDecoded(_ digits: Slice<UnsafeRawBufferPointer>) -> Secret? {
        guard digits.count >= 2 else { return nil }
        var buffer = SecretBuffer(capacity: digits.count / 2)
        var high: UInt8?
        for byte in digits {
            guard let value = hexValue(byte) else { return nil }
            if let first = high.take() { buffer.append(first << 4 | value) } else { high = value }
        }
        return buffer.seal()
    }

    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}

/// Ways in which a text writes other characters than its own.
enum TextEscapes: CaseIterable {
    /// `%41`, and `+` for a blank.
    case form
    /// `%41`.
    case url
    /// `\u0041`, `\x41`, `\"`.
    case json
    /// `&quot;`, `&#65;`, `&#x41;`.
    case html

    /// The text without its escapes; nil: it has none of these.
    func undone(_ text: UnsafeRawBufferPointer) -> Secret? {
        var buffer = SecretBuffer(capacity: text.count + 1)
        var hasEscapes = false
        var place = 0
        while place < text.count {
            let rest = UnsafeRawBufferPointer(rebasing: text[place...])
            guard let length = escape(rest, into: &buffer) else {
                buffer.append(text[place])
                place += 1
                continue
            }
            hasEscapes = true
            place += length
        }
        return hasEscapes ? buffer.seal() : nil
    }

    /// Writes what the escape at the beginning stands for, and returns its length; nil: there is none.
    private func escape(_ text: UnsafeRawBufferPointer, into buffer: inout SecretBuffer) -> Int? {
        switch (self, text[0]) {
        case (.form, UInt8(ascii: "+")):
            buffer.append(0x20)
            return 1
        case (.form, UInt8(ascii: "%")), (.url, UInt8(ascii: "%")):
            guard let value = Self.number(text, from: 1, digits: 2) else { return nil }
            buffer.append(UInt8(value))
            return 3
        case (.json, UInt8(ascii: "\\")): return Self.backslash(text, into: &buffer)
        case (.html, UInt8(ascii: "&")): return Self.entity(text, into: &buffer)
        default: return nil
        }
    }

    private static func number(_ text: UnsafeRawBufferPointer, from start: Int, digits: Int) -> UInt32? {
        guard text.count >= start + digits else { return nil }
        var value: UInt32 = 0
        for byte in text[start..<(start + digits)] {
            guard let digit = SecretEcho.hexValue(byte) else { return nil }
            value = value << 4 | UInt32(digit)
        }
        return value
    }

    private static func backslash(_ text: UnsafeRawBufferPointer, into buffer: inout SecretBuffer) -> Int? {
        guard text.count > 1 else { return nil }
        switch text[1] {
        case UInt8(ascii: "u"):
            guard let value = number(text, from: 2, digits: 4) else { return nil }
            append(value, to: &buffer)
            return 6
        case UInt8(ascii: "x"):
            guard let value = number(text, from: 2, digits: 2) else { return nil }
            buffer.append(UInt8(value))
            return 4
        case UInt8(ascii: "n"): buffer.append(0x0a)
        case UInt8(ascii: "r"): buffer.append(0x0d)
        case UInt8(ascii: "t"): buffer.append(0x09)
        case UInt8(ascii: "b"): buffer.append(0x08)
        case UInt8(ascii: "f"): buffer.append(0x0c)
        default: buffer.append(text[1])
        }
        return 2
    }

    private static let entities: [(name: StaticString, byte: UInt8)] = [
        ("amp;", UInt8(ascii: "&")), ("lt;", UInt8(ascii: "<")), ("gt;", UInt8(ascii: ">")),
        ("quot;", UInt8(ascii: "\"")), ("apos;", UInt8(ascii: "'")), ("nbsp;", 0x20),
    ]

    private static func entity(_ text: UnsafeRawBufferPointer, into buffer: inout SecretBuffer) -> Int? {
        for (name, byte) in entities {
            let word = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
            guard text.count > word.count, text[1...word.count].elementsEqual(word) else { continue }
            buffer.append(byte)
            return word.count + 1
        }
        guard text.count > 3, text[1] == UInt8(ascii: "#"),
            let end = text.prefix(10).firstIndex(of: UInt8(ascii: ";"))
        else { return nil }
        let isHex = text[2] | 0x20 == UInt8(ascii: "x")
        let digits = text[(isHex ? 3 : 2)..<max(end, isHex ? 3 : 2)]
        var value: UInt32 = 0
        guard !digits.isEmpty else { return nil }
        for byte in digits {
            guard let digit = SecretEcho.hexValue(byte), isHex || digit < 10 else { return nil }
            value = value * (isHex ? 16 : 10) + UInt32(digit)
        }
        append(value, to: &buffer)
        return end + 1
    }

    private static func append(_ value: UInt32, to buffer: inout SecretBuffer) {
        guard let scalar = Unicode.Scalar(value) else { return buffer.append(UInt8(ascii: "?")) }
        for byte in UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter { buffer.append(byte) }
    }
}
