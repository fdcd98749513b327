import LanyardSettings

/// The type of one scalar of the configuration. It checks text and describes the allowed values.
package enum ConfigurationValue: Equatable, Sendable {
    case boolean
    case integer(ClosedRange<Int>)
    case duration(ClosedRange<Duration>)
    case size(ClosedRange<Int64>)
    case choice([String])
    /// Part of a lifetime, `65-75%`.
    case portion
    /// Permissions in octal.
    case mode
    /// The name of a user, identity or route.
    case name
    /// Any text without control characters.
    case text
    case file(FileUse)
    /// The name of a systemd credential (`LoadCredential=`).
    case credential
    case listenAddress
    /// `host` or `host:port` of a Host field.
    case authority
    /// The same, where an IPv6 address needs no brackets.
    case listedHost
    case hostName
    case origin
    case upstream
    /// An http(s) URL.
    case url
    /// The same with an optional query (RFC 6749 §3.1).
    case endpoint
    /// The http URL of a proxy, with its port.
    case proxy
    /// An http(s) URL with an optional path.
    case baseURL
    /// Where the broker of another Lanyard is.
    case brokerAddress
    case pathPrefix
    case method
    /// A protocol that a connection may be upgraded to.
    case upgrade
    case fieldName
    /// A field that clients may be asked to send.
    case requiredField
    case fieldValue
    case injectFormat
    /// How an upstream refuses a token: an HTTP status, 100 to 599, or `grpc-16`.
    case refusal

    /// What a file at a path is for.
    package enum FileUse: Equatable, Sendable {
        /// Must exist: a CA file, a certificate, the certificate's key.
        case needed
        /// A secret that may appear later. Its user is `refused` until then.
        case secret
        /// Created by Lanyard.
        case kept
    }

    /// Why text is not an allowed value, and what to write instead. A type of its own, because a check does not know
    /// where the text stands: `ConfigurationError` adds the place.
    package struct ValueError: Error, Equatable, Sendable {
        /// What is wrong.
        package var message: String
        /// What to write instead.
        package var remedy: String
        package init(_ message: String, remedy: String) {
            self.message = message
            self.remedy = remedy
        }
    }

    /// - Throws: message and remedy if `text` is not an allowed value. A file at a path is not checked.
    package func check(_ text: String) throws(ValueError) {
        if text.isEmpty { throw ValueError("no value", remedy: "write \(wanted), or remove the key") }
        switch self {
        case .listenAddress: _ = try AddressText.listenAddress(text)
        case .upstream: _ = try URLText.upstream(text)
        case .baseURL: _ = try URLText.base(text)
        case .brokerAddress: _ = try URLText.broker(text)
        case .url: _ = try URLText.parts(text)
        case .endpoint: _ = try URLText.parts(text, takesQuery: true)
        case .proxy: _ = try URLText.proxy(text)
        case .file where text.utf8.contains(0) || text.utf8.count > 4095:
            throw ValueError("not a path", remedy: "write \(wanted)")
        default:
            guard !isRight(text) else { return }
            if case .choice(let words) = self {
                let meant = MeantKey.clientAuthentications[text].flatMap { words.contains($0) ? $0 : nil }
                throw ValueError(
                    "\(ConfigurationText.quoted(text)) is not one of \(words.joined(separator: ", "))",
                    remedy: (meant ?? NearestName.of(text, among: words)).map { "did you mean \"\($0)\"?" }
                        ?? "write one of them")
            }
            throw ValueError("\(ConfigurationText.quoted(text)) is not \(wanted)", remedy: remedy(for: text))
        }
    }

    private func isRight(_ text: String) -> Bool {
        switch self {
        case .boolean: ConfigurationText.boolean(text) != nil
        case .integer(let range): !Self.isOctal(text) && ConfigurationText.integer(text).map(range.contains) ?? false
        case .duration(let range): ConfigurationText.duration(text).map(range.contains) ?? false
        case .size(let range): ConfigurationText.size(text).map(range.contains) ?? false
        case .choice(let words): words.contains(text)
        case .portion: ConfigurationText.portion(text) != nil
        case .mode: ConfigurationText.mode(text) != nil
        case .name, .credential: ConfiguredName.isValid(text)
        case .text: text.utf8.allSatisfy { $0 >= 32 && $0 != 127 } && text.utf8.count <= 1024
        case .authority: AddressText.hostAndPort(text) != nil
        case .listedHost: AddressText.listedHost(text) != nil
        case .hostName: AddressText.listedHost(text).map { $0.port == nil } ?? false
        case .origin: FieldText.isOrigin(text)
        // Decoded request paths are compared, so a prefix with an escape would never match.
        case .pathPrefix: FieldText.isPathPrefix(text) && !text.utf8.contains(UInt8(ascii: "%"))
        case .method: FieldText.isMethod(text)
        case .upgrade: FieldText.isUpgrade(text)
        case .fieldName: FieldText.isToken(text) && !FieldText.isReserved(text)
        case .requiredField: FieldText.canBeRequired(text)
        case .fieldValue: FieldText.isValue(text)
        case .injectFormat: FieldText.cut(format: text) != nil
        case .refusal:
            text == "grpc-16"
                || !Self.isOctal(text) && ConfigurationText.integer(text).map((100...599).contains) ?? false
        case .file, .listenAddress, .upstream, .url, .endpoint, .proxy, .baseURL, .brokerAddress: true
        }
    }

    /// A description of allowed values: the end of "… is not", and the unit in the reference.
    package var wanted: String {
        switch self {
        case .boolean: "true or false"
        case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .duration(let range):
            "a duration from \(ConfigurationText.formatted(range.lowerBound)) to \(ConfigurationText.formatted(range.upperBound))"
        case .size(let range):
            "a size from \(ConfigurationText.formatted(bytes: range.lowerBound)) to \(ConfigurationText.formatted(bytes: range.upperBound))"
        case .choice(let words): words.joined(separator: ", ")
        case .portion: "a part of the lifetime in percent"
        case .mode: "permissions in octal"
        case .name: "a name of 1 to 64 letters, digits, dots, dashes and underscores"
        case .text: "a text of one line"
        case .file(.secret): "the path of a secret's file"
        case .file(.needed), .file(.kept): "the path of a file"
        case .credential: "the name of a systemd credential"
        case .listenAddress: "host:port, [v6]:port, unix:/path or systemd:NAME"
        case .authority, .listedHost: "host:port"
        case .hostName: "a host name without port"
        case .origin: "an origin"
        case .upstream: "http://…, https://… or unix:/path"
        case .url: "an http:// or https:// URL"
        case .endpoint: "an http:// or https:// URL, perhaps with a query"
        case .proxy: "an http:// URL with a port"
        case .baseURL: "an http:// or https:// URL"
        case .brokerAddress: "unix:/path, https://… or http://…"
        case .pathPrefix: "a path that begins with /, without query, escapes and dot segments"
        case .method: "a method"
        case .upgrade: "a protocol that carries no further HTTP requests"
        case .fieldName: "the name of a field that may be set"
        case .requiredField: "the name of a field that no browser sends by itself"
        case .fieldValue: "a field value"
        case .injectFormat: "a field value with {token} in it once"
        case .refusal: "an HTTP status, or grpc-16"
        }
    }

    /// Digits that other YAML readers take for an octal number.
    private static func isOctal(_ text: String) -> Bool {
        text.utf8.count > 1 && text.utf8.first == UInt8(ascii: "0") && ConfigurationText.integer(text) != nil
    }

    private func remedy(for text: String) -> String {
        switch self {
        case .integer where Self.isOctal(text), .refusal where Self.isOctal(text):
            "write it without the 0 in front: other YAML readers take it for an octal number"
        case .integer where ConfigurationText.integer(text) != nil,
            .duration where ConfigurationText.duration(text) != nil,
            .size where ConfigurationText.size(text) != nil:
            "choose one in that range"
        case .boolean: "write true or false"
        case .integer: "write digits only"
        case .duration: "write a whole number and ms, s, m, h or d, such as 90s"
        case .size: "write a whole number and B, KiB, MiB or GiB, such as 64KiB"
        case .portion: "write such as 65-75%"
        case .mode:
            if let octal = ConfigurationText.modeReadAsNumber(text) {
                "write \"\(octal)\" in quotes, if another program has read that as a number; else such as \"0660\""
            } else {
                "write four digits that begin with 0, such as \"0660\""
            }
        case .authority, .listedHost: "write such as localhost:7400"
        case .origin: "write such as https://app.example.com, without a path"
        case .pathPrefix: "write such as /orders"
        case .method: "write such as GET, in capitals, or leave the list out for every method"
        case .upgrade: "write such as websocket; h2c, HTTP and TLS would carry unchecked requests as the user"
        case .name, .credential: "choose another name"
        case .hostName: "write such as orders.internal"
        case .fieldValue: "remove control characters, and blanks at the ends"
        case .fieldName: "choose a name that Lanyard does not use for framing, routing or itself, such as X-Tenant"
        case .requiredField: "write such as Lanyard-Request"
        case .injectFormat: "write such as \"Bearer {token}\""
        default: "write \(wanted)"
        }
    }
}
