import LanyardFoundations

/// What the browser brings back from the authorization endpoint (RFC 6749 §4.1.2, RFC 9207).
struct AuthorizationResponse {
    private static let queryBytesMax = 16 << 10

    private var fields: [String: Secret] = [:]

    /// Reads a query, without `?`. nil: it is not one, or a name comes twice.
    init?(query: Secret) {
        guard query.count <= Self.queryBytesMax else { return nil }
        let isRead = query.withBytes { bytes in
            for pair in bytes.split(separator: UInt8(ascii: "&")) {
                let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
                guard let name = Self.decode(parts[0]).flatMap(Self.text), fields[name] == nil else { return false }
                guard let value = parts.count == 2 ? Self.decode(parts[1]) : SecretBuffer().seal() else { return false }
                fields[name] = value
            }
            return true
        }
        guard isRead else { return nil }
    }

    /// Of a successful response; nil: there is none that could be sent.
    var code: Secret? {
        guard let code = fields["code"], code.count > 0, code.withBytes({ $0.allSatisfy { 0x20..<0x7f ~= $0 } })
        else { return nil }
        return code
    }

    /// `iss`; nil: there is none.
    var issuer: String? { fields["iss"].flatMap(Self.text) }

    /// `error` of an unsuccessful response, `[A-Za-z_]` only; nil: there is none. An empty text stands for another spelling.
    var error: String? {
        guard let text = fields["error"].flatMap(Self.text) else { return nil }
        return text.utf8.count <= 64 && text.utf8.allSatisfy { $0 == 0x5f || 0x41...0x5a ~= $0 || 0x61...0x7a ~= $0 }
            ? text : ""
    }

    /// `error_description`; nil: there is none.
    var errorDescription: Secret? { fields["error_description"] }

    /// Whether `state` is that of the request.
    func hasState(_ state: Secret) -> Bool { fields["state"] == state }

    private static func text(_ secret: Secret) -> String? {
        secret.withBytes { bytes in
            bytes.allSatisfy { 0x20..<0x7f ~= $0 } ? String(decoding: bytes, as: UTF8.self) : nil
        }
    }

    /// The encoding of form fields undone; nil: a broken escape.
    private static func decode(_ text: Slice<UnsafeRawBufferPointer>) -> Secret? {
        var buffer = SecretBuffer(capacity: text.count + 1)
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): buffer.append(0x20)
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                    return nil
                }
                buffer.append(high << 4 | low)
            default: buffer.append(byte)
            }
        }
        return buffer.seal()
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
