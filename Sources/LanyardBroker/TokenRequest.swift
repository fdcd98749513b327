import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// Why a request for a token is refused. A type of its own: another row of the callers may grant it.
enum GrantFormError: Error {
    case refused(Problem)
    /// Another row may have the user.
    case notOfRow

    static func malformed(_ detail: String, _ code: Problem.OAuthCode = .invalidRequest) -> GrantFormError {
        .refused(.grantMalformed(detail, code))
    }

    /// The row does not have the user, so nothing else is said.
    var isOfUser: Bool { if case .notOfRow = self { true } else { false } }

    var problem: Problem {
        switch self {
        case .refused(let problem): problem
        case .notOfRow: .tokenNotAllowed
        }
    }
}

/// Which token a caller asks for, as a query or a form says it (RFC 6749 appendix B).
struct TokenRequest {
    var user: String?
    /// Without a user: the row's first one.
    var takesFirstUser = false
    private(set) var clientID: String?
    private(set) var audiences: [String] = []
    private(set) var resources: [String] = []
    private(set) var scopes: [String] = []
    private(set) var grantType: String?
    private(set) var clientSecret: Secret?
    private(set) var subjectToken: Secret?

    init() {}

    init(user: String?, audience: String?, scopes: [String]) {
        self.user = user
        audiences = audience.map { [$0] } ?? []
        self.scopes = scopes
    }

    /// - Parameter secretsAllowed: a query must not have secrets: others may log it.
    init(form: UnsafeRawBufferPointer, secretsAllowed: Bool) throws(GrantFormError) {
        var seen: Set<String> = []
        for part in form.split(separator: UInt8(ascii: "&")) {
            let end = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
            let name = try FormText.text(part[..<end])
            let value = part[end...].dropFirst()
            // Each once (RFC 6749 §3.2), but for these (RFC 8693 §2.1).
            let isList = name == "audience" || name == "resource"
            guard isList || seen.insert(name).inserted else { throw .malformed("a parameter is there twice") }
            switch name {
            case "client_secret", "subject_token":
                guard secretsAllowed else { throw .malformed("a secret in its query") }
                let secret = try FormText.secret(value)
                if name == "client_secret" { clientSecret = secret } else { subjectToken = secret }
            default: try set(name, FormText.text(value))
            }
        }
    }

    /// An empty value is none (RFC 6749 §3.2).
    private mutating func set(_ name: String, _ value: String) throws(GrantFormError) {
        guard !value.isEmpty else { return }
        switch name {
        case "user": user = value
        case "client_id": clientID = value
        case "grant_type": grantType = value
        case "audience": audiences.append(value)
        case "resource": resources.append(value)
        case "scope": scopes = value.utf8.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
        default: break
        }
        if audiences.count + resources.count > 8 || scopes.count > 32 {
            throw .malformed("it asks for too many audiences or scopes", .invalidTarget)
        }
    }

    /// `Authorization: Basic` with client id and secret, each as in a form (RFC 6749 §2.3.1).
    mutating func readBasic(_ values: [Bytes]) throws(GrantFormError) {
        guard let value = values.first else { return }
        guard values.count == 1, value.hasPrefix(lowered: "basic "),
            let pair = Base64.decode(Slice(base: UnsafeRawBufferPointer(value), bounds: 6..<value.count))
        else { throw .malformed("an Authorization that is no Basic one") }
        let secret = clientSecret
        let read = pair.withBytes { bytes -> (id: String, secret: Secret)? in
            guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
                let id = try? FormText.text(bytes[..<colon]), let secret = try? FormText.secret(bytes[(colon + 1)...])
            else { return nil }
            return (id, secret)
        }
        guard let read else { throw .malformed("an Authorization that is no Basic one") }
        // One way to authenticate (RFC 6749 §2.3).
        guard secret == nil || read.secret.count == 0 else { throw .malformed("a client_secret in two places") }
        if read.secret.count > 0 { clientSecret = read.secret }
        if clientID == nil, !read.id.isEmpty { clientID = read.id }
    }
}

/// The body of `POST /v1/token/refused`.
struct RefusalReport {
    let asked: TokenRequest
    let generation: UInt64

    init(json: UnsafeRawBufferPointer) throws(GrantFormError) {
        var texts: [String: String] = [:]
        var generation: UInt64?
        do throws(JSONError) {
            var reader = JSONReader(json, depthMax: 4)
            guard case .objectStart = try reader.next() else { throw JSONError(.grammar, at: 0) }
            while case .name(let text) = try reader.next() {
                let name = Self.text(text, json)
                switch name {
                // One that is no text is not left out: the refusal of another token would be reported.
                case "user", "audience", "scope":
                    guard case .string(let value) = try reader.next() else {
                        throw JSONError(.grammar, at: reader.position)
                    }
                    texts[name] = Self.text(value, json)
                case "generation":
                    guard case .number(let digits) = try reader.next() else {
                        throw JSONError(.grammar, at: reader.position)
                    }
                    generation = UInt64(String(decoding: json[digits], as: UTF8.self))
                default: try reader.skipValue()
                }
            }
            guard case .end = try reader.next() else { throw JSONError(.grammar, at: reader.position) }
        } catch {
            throw .malformed("a body that is no JSON object with a user and the generation of its token")
        }
        guard let generation else { throw .malformed("there is no generation of the token, a whole number") }
        self.generation = generation
        asked = TokenRequest(
            user: texts["user"], audience: texts["audience"],
            scopes: (texts["scope"] ?? "").utf8.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) })
    }

    private static func text(_ text: JSONReader.Text, _ json: UnsafeRawBufferPointer) -> String {
        var bytes: [UInt8] = []
        JSONText.decode(text, of: json) { bytes.append($0) }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// Names and values of `application/x-www-form-urlencoded`.
enum FormText {
    static func text(_ bytes: Slice<UnsafeRawBufferPointer>) throws(GrantFormError) -> String {
        var decoded: [UInt8] = []
        try decode(bytes) { decoded.append($0) }
        guard let text = String(validating: decoded, as: UTF8.self) else { throw .malformed("text that is no UTF-8") }
        return text
    }

    static func secret(_ bytes: Slice<UnsafeRawBufferPointer>) throws(GrantFormError) -> Secret {
        var buffer = SecretBuffer(capacity: bytes.count + 1)
        try decode(bytes) { buffer.append($0) }
        return buffer.seal()
    }

    private static func decode(
        _ bytes: Slice<UnsafeRawBufferPointer>, _ emit: (UInt8) -> Void
    ) throws(GrantFormError) {
        var place = bytes.startIndex
        while place < bytes.endIndex {
            let byte = bytes[place]
            place += 1
            switch byte {
            case UInt8(ascii: "+"): emit(0x20)
            case UInt8(ascii: "%"):
                guard place + 1 < bytes.endIndex, let high = ByteClass.hexValue(bytes[place]),
                    let low = ByteClass.hexValue(bytes[place + 1])
                else { throw .malformed("an invalid percent escape") }
                emit(high << 4 | low)
                place += 2
            default: emit(byte)
            }
        }
    }
}
