import LanyardFoundations

/// The text of the service's own error, for the operator that made the call. It is never logged.
///
/// The text may repeat what was sent, so it is left out if it has a secret of the call or a piece of one. What looks like a token is
/// cut out: a long word, and one of some length with a digit.
enum ServiceErrorText {
    static let bytesMax = 300
    /// Bytes of the text that are read.
    private static let readMax = 4096
    /// The longest word that stays.
    private static let wordMax = 40

    /// nil: there is no text, or it must not be shown.
    ///
    /// - Parameter secrets: what the call has sent.
    static func read(_ bytes: UnsafeRawBufferPointer, without secrets: [Secret]) -> String? {
        guard let text = find(bytes), text.count > 0 else { return nil }
        let hasSecret = text.withBytes { repeats($0, anyOf: secrets) }
        return hasSecret ? nil : text.withBytes(scrubbed)
    }

    /// Whether the text has one of the secrets, or a piece of one.
    static func repeats(_ text: String, anyOf secrets: [Secret]) -> Bool {
        var text = text
        return text.withUTF8 { repeats(UnsafeRawBufferPointer($0), anyOf: secrets) }
    }

    private static func repeats(_ text: UnsafeRawBufferPointer, anyOf secrets: [Secret]) -> Bool {
        secrets.contains { secret in secret.withBytes { repeats(text, $0) } }
    }

    /// The `error` of the outermost object.
    private static func find(_ bytes: UnsafeRawBufferPointer) -> Secret? {
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() {
                guard JSONText.matches(name, of: bytes, "error") else {
                    try reader.skipValue()
                    continue
                }
                guard case .string(let text) = try reader.next() else { return nil }
                return JSONText.secret(text, of: bytes, countMax: 64 << 10)
            }
        } catch {}
        return nil
    }

    /// Whether the text has the secret, or a piece of it. The cost grows with the sum of both lengths: a JWT may be a megabyte.
    private static func repeats(_ text: UnsafeRawBufferPointer, _ secret: UnsafeRawBufferPointer) -> Bool {
        let text = UnsafeRawBufferPointer(rebasing: text.prefix(readMax))
        guard secret.count > Piece.bytes else {
            guard secret.count > 0, secret.count <= text.count else { return false }
            return (0...(text.count - secret.count)).contains { text[$0..<($0 + secret.count)].elementsEqual(secret) }
        }
        guard text.count >= Piece.bytes else { return false }
        let pieces = Set((0...(text.count - Piece.bytes)).map { Piece(text, at: $0) })
        return (0...(secret.count - Piece.bytes)).contains { pieces.contains(Piece(secret, at: $0)) }
    }

    /// As many bytes of a secret as give it away.
    private struct Piece: Hashable {
        static let bytes = 12
        private let first: UInt64
        private let last: UInt32

        init(_ bytes: UnsafeRawBufferPointer, at place: Int) {
            first = bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self)
            last = bytes.loadUnaligned(fromByteOffset: place + 8, as: UInt32.self)
        }
    }

    /// Printable ASCII, at most `bytesMax` of it.
    private static func scrubbed(_ bytes: UnsafeRawBufferPointer) -> String {
        var out: [UInt8] = []
        for word in bytes.prefix(readMax).split(separator: 0x20, omittingEmptySubsequences: true) {
            if !out.isEmpty { out.append(0x20) }
            if word.count > wordMax || (word.count >= Piece.bytes && word.contains { 0x30...0x39 ~= $0 }) {
                out.append(contentsOf: "[...]".utf8)
            } else {
                out.append(contentsOf: word.map { 0x21..<0x7f ~= $0 ? $0 : UInt8(ascii: "?") })
            }
        }
        return String(decoding: out.prefix(bytesMax), as: UTF8.self)
    }
}
