import LanyardFoundations

/// The characters of a bearer token (RFC 6750 §2.1), as they may follow `Bearer ` in a field.
enum BearerToken {
    /// One or more of `ALPHA DIGIT - . _ ~ + /`, then any number of `=`.
    ///
    /// - Parameter isSalesforce: a token is a session id, with a `!` behind the id of its organisation.
    static func isValid(_ token: Secret, isSalesforce: Bool = false) -> Bool {
        token.withBytes { bytes in
            let body = bytes.prefix { isCharacter($0) || isSalesforce && $0 == UInt8(ascii: "!") }
            return !body.isEmpty && bytes[body.endIndex...].allSatisfy { $0 == UInt8(ascii: "=") }
        }
    }

    private static func isCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"), UInt8(ascii: "+"), UInt8(ascii: "/"):
            true
        default: false
        }
    }
}
