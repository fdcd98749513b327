import LanyardFoundations

/// The service's own words of an error, for operators. They are never logged, and no client gets them.
///
/// They may repeat what was sent, so they are left out if they have a secret of the call or a piece of one (`SecretEcho`). What looks like
/// a token of another call is cut out: a long word, and one of some length with a digit among its letters. Of the rest there is printable
/// ASCII: other bytes are shown as `\\x0a`.
enum ServiceErrorText {
    /// Of the words as they are shown.
    static let bytesMax = 200
    /// The longest word that stays.
    private static let wordMax = 40
    /// The longest word with digits that stays, unless they are a number's or an id's.
    private static let mixedWordMax = 11

    /// The `error` of a response of App Services; nil: there is none, or it must not be shown.
    ///
    /// - Parameter secrets: what the call has sent.
    static func read(_ bytes: UnsafeRawBufferPointer, without secrets: [Secret]) -> String? {
        let found = ErrorWords(bytes)
        return found.values[.error].flatMap { shown($0, without: secrets + found.tokens) }
    }

    /// What explains an error of an authorization server (RFC 6749 §5.2), or of an API of GitHub; nil: there is nothing, or it must not be
    /// shown.
    ///
    /// - Parameters:
    ///   - code: that the message has already.
    ///   - secrets: what the call has sent.
    static func explanation(
        in bytes: UnsafeRawBufferPointer, besides code: String?, without secrets: [Secret]
    ) -> String? {
        let found = ErrorWords(bytes)
        let secrets = secrets + found.tokens
        // A code that is no word alone, such as one with figures, is not in the message.
        let own = ErrorWords.codes.lazy.compactMap { found.values[$0] }.first { text in
            text.count > 0 && !text.withBytes { bytes in code.map { bytes.elementsEqual($0.utf8) } ?? false }
        }
        let words = ErrorWords.texts.lazy.compactMap { found.values[$0] }.first { $0.count > 0 }
        switch (own, words) {
        case (nil, nil): return nil
        case (let text?, nil), (nil, let text?): return shown(text, without: secrets)
        case (let own?, let words?):
            guard code == nil else { return shown(words, without: secrets) }
            var both = SecretBuffer(capacity: own.count + words.count + 2)
            own.withBytes { both.append($0) }
            both.append(": ")
            words.withBytes { both.append($0) }
            return shown(both.seal(), without: secrets)
        }
    }

    /// The words as they may be shown; nil: they may not.
    static func shown(_ text: Secret, without secrets: [Secret]) -> String? {
        guard text.count > 0, !text.withBytes({ SecretEcho(of: secrets).isIn($0) }) else { return nil }
        return text.withBytes(scrubbed)
    }

    /// The tokens of a response, usable or not: no text may show one of them.
    static func tokens(in bytes: UnsafeRawBufferPointer) -> [Secret] { ErrorWords(bytes).tokens }

    /// The text of `scope` as it came, or of its elements with a blank between them; nil: there is none.
    static func scope(in bytes: UnsafeRawBufferPointer) -> Secret? { ErrorWords(bytes).scope }

    /// Whether a part of an address may be another call's token.
    static func looksLikeToken(_ part: Substring) -> Bool {
        Array(part.utf8).withUnsafeBytes { looksLikeToken($0[...]) }
    }

    /// Printable ASCII, at most `bytesMax` of it.
    private static func scrubbed(_ bytes: UnsafeRawBufferPointer) -> String? {
        var out: [UInt8] = []
        for word in bytes.split(separator: 0x20, omittingEmptySubsequences: true) {
            if !out.isEmpty { out.append(0x20) }
            guard !looksLikeToken(word) else {
                out.append(contentsOf: "[...]".utf8)
                continue
            }
            for byte in word { escape(byte, into: &out) }
            if out.count > bytesMax { break }
        }
        guard !out.isEmpty else { return nil }
        guard out.count > bytesMax else { return String(decoding: out, as: UTF8.self) }
        var kept = out.prefix(bytesMax - 3)
        // No half of an escape.
        if let start = kept.suffix(3).lastIndex(of: UInt8(ascii: "\\")) { kept = kept[..<start] }
        return String(decoding: kept, as: UTF8.self) + "..."
    }

    private static func escape(_ byte: UInt8, into out: inout [UInt8]) {
        switch byte {
        // The words are shown in quotes.
        case UInt8(ascii: "\""): out.append(UInt8(ascii: "'"))
        case UInt8(ascii: "\\"): out.append(contentsOf: "\\\\".utf8)
        case 0x21..<0x7f: out.append(byte)
        default:
            out.append(contentsOf: "\\x".utf8)
            out.append(Hex.digit(byte >> 4))
            out.append(Hex.digit(byte & 15))
        }
    }

    private static func looksLikeToken(_ word: Slice<UnsafeRawBufferPointer>) -> Bool {
        if word.count > wordMax || isDotted(word) { return true }
        guard word.count > mixedWordMax, word.contains(where: isDigit) else { return false }
        return !isNumbered(word) && !isNumber(word) && !isUUID(word)
    }

    /// As a JWT, and no name of a host.
    private static func isDotted(_ word: Slice<UnsafeRawBufferPointer>) -> Bool {
        word.count >= 20 && word.contains { 0x41...0x5a ~= $0 } && word.count { $0 == UInt8(ascii: ".") } >= 2
    }

    /// Capitals and then figures, as Entra's `AADSTS7000215:`.
    private static func isNumbered(_ word: Slice<UnsafeRawBufferPointer>) -> Bool {
        let rest = word.drop { 0x41...0x5a ~= $0 }.drop(while: isDigit)
        return word.count <= 20 && rest.count <= 1 && rest.allSatisfy { ":.,;".utf8.contains($0) }
    }

    /// Figures alone with what stands between those of a number or a time.
    private static func isNumber(_ word: Slice<UnsafeRawBufferPointer>) -> Bool {
        word.count <= 30 && word.allSatisfy { isDigit($0) || "-:.,TZ+/".utf8.contains($0) }
    }

    /// An id as servers give it to a request, perhaps with a sign around it.
    private static func isUUID(_ word: Slice<UnsafeRawBufferPointer>) -> Bool {
        let inner = word.drop { isSign($0) }
        let dashes = inner.indices.prefix(36).filter { inner[$0] == UInt8(ascii: "-") }.map { $0 - inner.startIndex }
        return inner.count >= 36
            && inner.prefix(36).allSatisfy { SecretEcho.hexValue($0) != nil || $0 == UInt8(ascii: "-") }
            && dashes == [8, 13, 18, 23] && inner.dropFirst(36).allSatisfy(isSign)
    }

    private static func isSign(_ byte: UInt8) -> Bool { "'()[]<>\".,:;".utf8.contains(byte) }
    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }
}

/// The texts of an error's body that say what is wrong.
private struct ErrorWords {
    enum Member: CaseIterable {
        case error, errorCode, code, oktaErrorCode, awsType
        case description, oktaSummary, errorMessage, message, shortMessage, detail
        case accessToken, refreshToken, idToken, token, scope

        var name: StaticString {
            switch self {
            case .error: "error"
            case .errorCode: "error_code"
            case .code: "code"
            case .oktaErrorCode: "errorCode"
            case .awsType: "__type"
            case .description: "error_description"
            case .oktaSummary: "errorSummary"
            case .errorMessage: "error_message"
            case .message: "message"
            case .shortMessage: "msg"
            case .detail: "detail"
            case .accessToken: "access_token"
            case .refreshToken: "refresh_token"
            case .idToken: "id_token"
            case .token: "token"
            case .scope: "scope"
            }
        }
    }

    /// In the order in which they count.
    static let codes: [Member] = [.error, .errorCode, .code, .oktaErrorCode, .awsType]
    static let texts: [Member] = [.description, .oktaSummary, .errorMessage, .message, .shortMessage, .detail]
    private static let bytesMax = SecretEcho.textBytesMax

    private(set) var values: [Member: Secret] = [:]

    /// What no text of the same response may show.
    var tokens: [Secret] {
        [Member.accessToken, .refreshToken, .idToken, .token].compactMap { values[$0] }.filter { $0.count > 0 }
    }
    var scope: Secret? { values[.scope] }

    /// Reads what the bytes hold, up to the byte where they are no JSON.
    init(_ bytes: UnsafeRawBufferPointer) {
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            guard try reader.next() == .objectStart else { return }
            while case .name(let name) = try reader.next() { try readMember(name, &reader, bytes) }
        } catch {
            // What came before counts.
        }
    }

    private mutating func readMember(
        _ name: JSONReader.Text, _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) {
        guard let member = Member.allCases.first(where: { JSONText.matches(name, of: bytes, $0.name) }) else {
            return try reader.skipValue()
        }
        switch try reader.next() {
        case .string(let text): values[member] = JSONText.secret(text, of: bytes, countMax: Self.bytesMax)
        case .objectStart where member == .error:
            // As the APIs of Google have it.
            while case .name(let name) = try reader.next() { try readMember(name, &reader, bytes) }
        case .arrayStart where member == .scope: try readScopes(&reader, bytes)
        case .objectStart, .arrayStart: try OAuthResponse.skipRest(of: &reader)
        default: break
        }
    }

    /// The array is open already.
    private mutating func readScopes(
        _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) {
        var all = SecretBuffer(capacity: 256)
        while true {
            switch try reader.next() {
            case .string(let text):
                if all.count > 0 { all.append(0x20) }
                JSONText.secret(text, of: bytes, countMax: Self.bytesMax)?.withBytes { all.append($0) }
            case .objectStart, .arrayStart: try OAuthResponse.skipRest(of: &reader)
            case .arrayEnd, .end:
                values[.scope] = all.seal()
                return
            default: break
            }
        }
    }
}
