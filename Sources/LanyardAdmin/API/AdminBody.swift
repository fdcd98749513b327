import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Reads the JSON bodies of admin calls from bytes. Secrets are copied from the wiped buffer into a `Secret` and nowhere else.
enum AdminBody {
    /// Why a body cannot be used: 400 or 422 (architecture-control.md 7.4). A type of its own, because the case decides the
    /// status.
    enum ReadError: Error, Equatable {
        /// Not one JSON text.
        case malformed(JSONError)
        /// Valid JSON that does not fit the call. The message names the member and never its value.
        case invalid(String)
    }

    /// `POST /v1/users`.
    struct NewUser: Sendable {
        var name: String
        var identity: String
        var credential: LoginMethod<Secret>
        /// The login makes the user active.
        var activates: Bool
    }

    /// `POST …/login`.
    struct Login: Sendable {
        /// nil: the configured credential is used.
        var credential: LoginMethod<Secret>?
        /// The login makes the user active.
        var activates: Bool
        /// Where a browser comes back after a login by authorization code; nil: not given.
        var redirectURI: String?
    }

    /// The payload of a custom function may be as deep as any document of MongoDB, 100 levels.
    static let depthMax = 104
    private static let keyBytesMax = 64
    static let emailBytesMax = 1024
    /// Characters of the largest JWT that App Services takes.
    private static let tokenBytesMax = 1_000_000

    static func newUser(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> NewUser {
        var (name, identity, credential): (String?, String?, LoginMethod<Secret>?)
        var activates = true
        try members(of: bytes) { key, body throws(ReadError) in
            switch key {
            case "name": name = try body.name(key)
            case "identity": identity = try body.name(key)
            case "credential": credential = try body.credential(key)
            case "activate": activates = try body.bool(key)
            default: throw .unknown(key)
            }
        }
        return NewUser(
            name: try needed(name, "name"), identity: try needed(identity, "identity"),
            credential: try needed(credential, "credential"), activates: activates)
    }

    static func login(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> Login {
        var login = Login(credential: nil, activates: true)
        try members(of: bytes) { key, body throws(ReadError) in
            switch key {
            case "credential": login.credential = try body.credential(key)
            case "activate": login.activates = try body.bool(key)
            case "redirect_uri": login.redirectURI = try body.redirectURI(key)
            default: throw .unknown(key)
            }
        }
        return login
    }

    /// `POST …/login/{login}`.
    static func redirect(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> Secret {
        var query: Secret?
        try members(of: bytes) { key, body throws(ReadError) in
            guard key == "query" else { throw .unknown(key) }
            query = try body.secret(key, bytesMax: SecretFile.bytesMax)
        }
        return try needed(query, "query")
    }

    /// `POST /v1/log-level`.
    static func logLevel(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> LogSettings.Level {
        var text: String?
        try members(of: bytes) { key, body throws(ReadError) in
            guard key == "level" else { throw .unknown(key) }
            text = try body.text(key, bytesMax: keyBytesMax)
        }
        guard let level = LogSettings.Level(rawValue: try needed(text, "level")) else {
            let known = LogSettings.Level.allCases.map(\.rawValue).joined(separator: ", ")
            throw .invalid("level is not one of \(known)")
        }
        return level
    }

    /// The body of a call without parameters: empty, or an object without members.
    static func nothing(_ bytes: UnsafeRawBufferPointer) throws(ReadError) {
        try members(of: bytes) { key, _ throws(ReadError) in throw .unknown(key) }
    }

    static func needed<Value>(_ value: Value?, _ key: String) throws(ReadError) -> Value {
        guard let value else { throw .invalid("\(key) is missing") }
        return value
    }

    /// Reads the top-level object member by member. An empty body counts as an object without members.
    static func members(
        of bytes: UnsafeRawBufferPointer, _ read: (String, inout Cursor) throws(ReadError) -> Void
    ) throws(ReadError) {
        guard bytes.count > 0 else { return }
        try check(bytes)
        var cursor = Cursor(bytes, depthMax: depthMax)
        guard try cursor.next() == .objectStart else { throw .invalid("the body is not a JSON object") }
        try cursor.members(read)
    }

    /// Checks the whole text first, so that malformed JSON is reported before any wrong member.
    static func check(
        _ bytes: UnsafeRawBufferPointer, depthMax: Int = AdminBody.depthMax
    ) throws(ReadError) {
        var reader = JSONReader(bytes, depthMax: depthMax)
        do throws(JSONError) {
            while try reader.next() != .end {}
        } catch {
            throw .malformed(error)
        }
    }

    /// A position in checked JSON text.
    struct Cursor: ~Copyable {
        private let bytes: UnsafeRawBufferPointer
        private var reader: JSONReader

        init(_ bytes: UnsafeRawBufferPointer, depthMax: Int) {
            self.bytes = bytes
            reader = JSONReader(bytes, depthMax: depthMax)
        }

        mutating func next() throws(ReadError) -> JSONReader.Token {
            do throws(JSONError) { return try reader.next() } catch { throw .malformed(error) }
        }

        /// Reads the members of an object after its start: calls `read` for each key, with the cursor before its value.
        mutating func members(_ read: (String, inout Cursor) throws(ReadError) -> Void) throws(ReadError) {
            while case .name(let text) = try next() { try read(word(text), &self) }
        }

        /// A key as text, cut to `keyBytesMax`: keys are never secret, and no known key is longer.
        private func word(_ text: JSONReader.Text) -> String {
            var word: [UInt8] = []
            JSONText.decode(text, of: bytes) { if word.count < keyBytesMax { word.append($0) } }
            return String(decoding: word, as: UTF8.self)
        }

        mutating func secret(_ key: String, bytesMax: Int) throws(ReadError) -> Secret {
            guard case .string(let text) = try next() else { throw .invalid("\(key) is not a string") }
            guard let secret = JSONText.secret(text, of: bytes, countMax: bytesMax) else {
                throw .invalid("\(key) is longer than \(bytesMax) bytes")
            }
            guard secret.count > 0 else { throw .invalid("\(key) is empty") }
            return secret
        }

        /// The bytes of an object, as they are.
        mutating func object(_ key: String) throws(ReadError) -> Secret {
            guard case .objectStart = try next() else { throw .invalid("\(key) is not an object") }
            let start = reader.position - 1
            var depth = 1
            while depth > 0 {
                switch try next() {
                case .objectStart, .arrayStart: depth += 1
                case .objectEnd, .arrayEnd: depth -= 1
                default: break
                }
            }
            return Secret(copying: UnsafeRawBufferPointer(rebasing: bytes[start..<reader.position]))
        }

        mutating func bool(_ key: String) throws(ReadError) -> Bool {
            guard case .bool(let value) = try next() else { throw .invalid("\(key) is neither true nor false") }
            return value
        }

        /// An array as JSON text, with any values.
        mutating func array(_ key: String) throws(ReadError) -> Secret {
            var copy = JSONCopy(of: bytes)
            let first: JSONReader.Token
            do throws(JSONError) {
                first = try copy.appendValue(of: &reader)
            } catch {
                throw .malformed(error)
            }
            guard first == .arrayStart else { throw .invalid("\(key) is not an array") }
            return copy.seal()
        }

        /// A string that is not secret.
        mutating func text(_ key: String, bytesMax: Int) throws(ReadError) -> String {
            guard case .string(let text) = try next() else { throw .invalid("\(key) is not a string") }
            var bytes: [UInt8] = []
            JSONText.decode(text, of: self.bytes) { if bytes.count <= bytesMax { bytes.append($0) } }
            guard !bytes.isEmpty else { throw .invalid("\(key) is empty") }
            guard bytes.count <= bytesMax else { throw .invalid("\(key) is longer than \(bytesMax) bytes") }
            return String(decoding: bytes, as: UTF8.self)
        }

        /// A loopback redirect (RFC 8252 §7.3): a browser brings the code there, and nothing else may get it.
        mutating func redirectURI(_ key: String) throws(ReadError) -> String {
            let uri = try text(key, bytesMax: 2048)
            let hosts = ["127.0.0.1:", "[::1]:", "localhost:"]
            guard let origin = URLOrigin(of: uri), !origin.isTLS,
                let host = hosts.first(where: { origin.authority.hasPrefix($0) })
            else { throw .invalid("\(key) is not http://127.0.0.1:PORT/PATH, or the same of [::1] or localhost") }
            // A name such as 127.0.0.1:80.evil.example is another machine's for some readers.
            let port = origin.authority.dropFirst(host.count)
            guard 1...5 ~= port.utf8.count, port.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), UInt16(port) ?? 0 > 0,
                !origin.rest.utf8.contains(UInt8(ascii: "\\")), uri.utf8.allSatisfy({ 0x21..<0x7f ~= $0 }),
                !uri.utf8.contains(UInt8(ascii: "@")), !uri.utf8.contains(UInt8(ascii: "#"))
            else { throw .invalid("\(key) is not http://127.0.0.1:PORT/PATH, or the same of [::1] or localhost") }
            return uri
        }

        mutating func name(_ key: String) throws(ReadError) -> String {
            let name = try text(key, bytesMax: ConfiguredName.bytesMax)
            guard ConfiguredName.isValid(name) else { throw .invalid("\(key) is not one of [A-Za-z0-9._-]{1,64}") }
            return name
        }

        /// An object with one member, the kind of login (architecture-control.md 7.4).
        mutating func credential(_ key: String) throws(ReadError) -> LoginMethod<Secret> {
            guard case .objectStart = try next() else { throw .invalid("\(key) is not an object") }
            let known = LoginKind.providers.joined(separator: ", ")
            var credential: LoginMethod<Secret>?
            try members { kind, body throws(ReadError) in
                guard credential == nil else { throw .invalid("\(key) has more than one kind of login") }
                guard LoginKind.providers.contains(kind) else {
                    throw .invalid("credential.\(kind) is not a kind of login; known: \(known)")
                }
                guard case .objectStart = try body.next() else { throw .invalid("credential.\(kind) is not an object") }
                credential = try body.credential(of: kind)
            }
            guard let credential else { throw .invalid("\(key) has no kind of login; known: \(known)") }
            return credential
        }

        private mutating func credential(of provider: String) throws(ReadError) -> LoginMethod<Secret> {
            let kinds = LoginKind.allCases.filter { $0.provider == provider && !$0.isConfiguredOnly }
            var (account, secret, kind): (String?, Secret?, LoginKind?)
            var (types, actorToken): (TokenTypes, Secret?) = (TokenTypes(), nil)
            let accountName = kinds.first?.accountName
            let shown = "credential.\(provider)"
            try members { key, body throws(ReadError) in
                if key == accountName {
                    return account = try body.text("\(shown).\(key)", bytesMax: emailBytesMax)
                }
                if provider == LoginKind.tokenExchange.provider {
                    switch key {
                    case "subject_token_type": return types.subject = try body.tokenType("\(shown).\(key)")
                    case "actor_token_type": return types.actor = try body.tokenType("\(shown).\(key)")
                    case "requested_token_type": return types.requested = try body.tokenType("\(shown).\(key)")
                    case "actor_token":
                        return actorToken = try body.secret("\(shown).\(key)", bytesMax: tokenBytesMax)
                    default: break
                    }
                }
                guard let named = kinds.first(where: { $0.secretName == key }) else {
                    throw .unknown("\(shown).\(key)")
                }
                if let other = kind?.secretName { throw .invalid("\(shown) has both \(other) and \(key)") }
                kind = named
                secret = try body.secret("\(shown).\(key)", of: named)
            }
            if let accountName { _ = try needed(account, "\(shown).\(accountName)") }
            kind = kind ?? kinds.first
            guard let kind, var credential = LoginMethod<Secret>(kind, account: account, secret: secret) else {
                let names = kinds.compactMap(\.secretName).joined(separator: " or ")
                throw .invalid("\(shown).\(names) is missing")
            }
            (credential.tokenTypes, credential.actorToken) = (types, actorToken)
            return credential
        }

        /// A word of `TokenTypes.words`, or a URI.
        private mutating func tokenType(_ key: String) throws(ReadError) -> String {
            guard let uri = TokenTypes.uri(try text(key, bytesMax: 256)) else {
                throw .invalid("\(key) is neither a URI nor one of \(TokenTypes.words.joined(separator: ", "))")
            }
            return uri
        }

        private mutating func secret(_ key: String, of kind: LoginKind) throws(ReadError) -> Secret {
            switch kind {
            case .function: try object(key)
            case .jwt, .googleIDToken, .googleAuthCode, .apple, .jwtBearer, .tokenExchange:
                try secret(key, bytesMax: tokenBytesMax)
            case .anonymous, .emailPassword, .apiKey, .facebook, .clientCredentials, .password, .refreshToken,
                .signedAssertion, .googleKey, .device, .authorizationCode, .gitHubApp, .broker:
                try secret(key, bytesMax: SecretFile.bytesMax)
            }
        }
    }
}

extension AdminBody.ReadError {
    static func unknown(_ key: String) -> AdminBody.ReadError { .invalid("unknown key \(key)") }
}
