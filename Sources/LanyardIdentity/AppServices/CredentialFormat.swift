import LanyardFoundations

/// What the secret of a login must be. It is checked before anything is sent (app-services.md 2.6).
enum CredentialFormat: Equatable, Sendable {
    /// Text of at most 64 KiB.
    case text
    /// A key or token in visible ASCII of at most 64 KiB.
    case token
    /// A JWT in the compact form (RFC 7515 §7.1).
    case jwt
    /// A JSON object whose members become those of the login's body (app-services.md 2.1).
    case document

    /// Characters of the largest JWT that the service takes.
    static let jwtCharactersMax = 1_000_000
    /// MongoDB nests no document deeper.
    static let documentDepthMax = 100

    /// Of a text that is not UTF-8, after the file's name.
    static let encodingDefect = "is not UTF-8 text; save it as UTF-8"

    /// What its text may hold. What editors add is skipped by it, or named.
    var form: SecretText.Form {
        switch self {
        case .text: .any
        case .token, .jwt: .token
        case .document: .document
        }
    }

    /// What is wrong with a secret. Never holds a byte of it.
    struct Defect: Equatable {
        /// What the secret is.
        let reason: String
        /// What to do with its file.
        let remedy: String

        /// - Parameter path: of the secret's file; nil: an operator gave the secret.
        func message(path: String?) -> String {
            guard let path else { return "the credential given is \(reason)" }
            return "\(path) holds \(reason); \(remedy), it is read again by itself"
        }
    }

    /// nil: the secret can be sent. Whether text is UTF-8 is seen when it is written.
    func defect(of secret: Secret) -> Defect? {
        secret.withBytes { bytes in
            switch self {
            case .text, .token: return Self.textDefect(bytes)
            case .jwt: return Self.jwtDefect(bytes)
            case .document:
                guard case .unfit(let defect) = Self.document(bytes) else { return nil }
                return defect
            }
        }
    }

    private static func textDefect(_ bytes: UnsafeRawBufferPointer) -> Defect? {
        guard bytes.count > SecretFile.bytesMax else { return nil }
        return Defect(reason: "text larger than 64 KiB, the most that such a secret has", remedy: "correct it")
    }

    // MARK: JWT

    private static func jwtDefect(_ token: UnsafeRawBufferPointer) -> Defect? {
        guard token.count <= jwtCharactersMax else {
            return wrong("more than 1,000,000 characters, the most that the service takes of a JWT")
        }
        let segments = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard segments.count == 3 else {
            let count = segments.count == 1 ? "1 segment" : "\(segments.count) segments"
            return wrong(
                "no JWT: it has \(count) in place of 3, and the service would respond with "
                    + "\"token contains an invalid number of segments\"")
        }
        for (name, segment) in zip(["first", "second", "third"], segments) {
            guard !segment.isEmpty else { return wrong("no JWT: its \(name) segment is empty") }
            if let place = segment.firstIndex(where: { !isBase64URL($0) }) {
                return wrong("no JWT: the character at byte \(place) of it is none of base64url")
            }
            guard segment.count % 4 != 1 else {
                return wrong("no JWT: its \(name) segment has a length that no base64url text has")
            }
        }
        return nil
    }

    private static func wrong(_ reason: String) -> Defect {
        Defect(reason: reason, remedy: "the file is wrong or truncated: write the whole token into it")
    }

    private static func isBase64URL(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
    }

    // MARK: Document

    enum Document: Equatable {
        /// The bytes from the first member to the last; empty if there is none.
        case members(Range<Int>)
        case unfit(Defect)
    }

    /// Reads a document whose members are to become members of another object.
    static func document(_ bytes: UnsafeRawBufferPointer) -> Document {
        guard bytes.count <= SecretFile.credentialBytesMax else {
            return unfit("more than 1 MiB, the most that a payload has")
        }
        var reader = JSONReader(bytes, depthMax: documentDepthMax)
        do throws(JSONError) {
            guard try reader.next() == .objectStart else { return unfit("JSON that is no object") }
            let start = reader.position
            var (end, hasOptions) = (start, false)
            while case .name(let name) = try reader.next() {
                hasOptions = hasOptions || JSONText.matches(name, of: bytes, "options")
                try reader.skipValue()
                end = reader.position
            }
            // Throws if something follows.
            _ = try reader.next()
            guard !hasOptions else {
                return unfit(
                    "an object with a member options, under which the client API sends the device; the function would not get it",
                    remedy: "rename that member")
            }
            return .members(start..<end)
        } catch {
            return unfit("no JSON: \(error.kind.message) at byte \(error.offset)")
        }
    }

    private static func unfit(_ reason: String, remedy: String = "write one JSON object into it") -> Document {
        .unfit(Defect(reason: reason, remedy: remedy))
    }
}
