import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The bodies of calls about accounts.
extension AdminBody {
    /// The arguments of a function may be nested deeper than the API's own bodies.
    private static let argumentDepthMax = 128
    private static let apiKeyNameBytesMax = 256

    /// The body of `POST …/link`. An anonymous login has no account that could be kept, so none can be added.
    static func link(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> LoginMethod<Secret> {
        var given: LoginMethod<Secret>?
        try members(of: bytes) { key, body throws(ReadError) in
            guard key == "credential" else { throw .unknown(key) }
            given = try body.credential(key)
        }
        let credential = try needed(given, "credential")
        if credential.kind == .anonymous {
            throw .invalid(
                "credential.anonymous cannot be linked: an anonymous login always begins an account of its own")
        }
        return credential
    }

    /// The body of `POST …/api-keys`.
    static func apiKeyName(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> String {
        var name: String?
        try members(of: bytes) { key, body throws(ReadError) in
            guard key == "name" else { throw .unknown(key) }
            name = try body.text(key, bytesMax: apiKeyNameBytesMax)
        }
        return try needed(name, "name")
    }

    /// The body of a function call: a JSON array, by default an empty one.
    static func arguments(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> Secret {
        guard bytes.count > 0 else { return emptyArray() }
        try check(bytes, depthMax: argumentDepthMax)
        var cursor = Cursor(bytes, depthMax: argumentDepthMax)
        return try cursor.array("the body")
    }

    private static func emptyArray() -> Secret {
        var text = SecretBuffer(capacity: 2)
        text.append("[]")
        return text.seal()
    }

    /// The body of a call about an account with email and password.
    static func emailPassword(
        _ verb: EmailPasswordVerb, _ bytes: UnsafeRawBufferPointer
    ) throws(ReadError) -> EmailPasswordCall {
        var values = EmailPasswordValues()
        try members(of: bytes) { key, body throws(ReadError) in
            guard verb.keys.contains(key) else { throw .unknown(key) }
            switch key {
            case "email": values.email = try body.text(key, bytesMax: emailBytesMax)
            case "arguments": values.arguments = try body.array(key)
            default: values.secrets[key] = try body.secret(key, bytesMax: SecretFile.bytesMax)
            }
        }
        switch verb {
        case .register: return .register(email: try values.address(), password: try values.secret("password"))
        case .confirm: return .confirm(token: try values.secret("token"), tokenID: try values.secret("token_id"))
        case .resendConfirmation: return .resendConfirmation(email: try values.address())
        case .retryCustomConfirmation: return .retryCustomConfirmation(email: try values.address())
        case .sendResetEmail: return .sendResetEmail(email: try values.address())
        case .resetPassword:
            return .resetPassword(
                token: try values.secret("token"), tokenID: try values.secret("token_id"),
                password: try values.secret("password"))
        case .callResetFunction:
            return .callResetFunction(
                email: try values.address(), password: try values.secret("password"),
                arguments: values.arguments ?? emptyArray())
        }
    }

    private struct EmailPasswordValues {
        var email: String?
        var secrets: [String: Secret] = [:]
        var arguments: Secret?

        func address() throws(ReadError) -> String { try needed(email, "email") }

        func secret(_ key: String) throws(ReadError) -> Secret { try needed(secrets[key], key) }
    }
}

extension EmailPasswordVerb {
    /// The members of the body.
    fileprivate var keys: Set<String> {
        switch self {
        case .register: ["email", "password"]
        case .confirm: ["token", "token_id"]
        case .resendConfirmation, .retryCustomConfirmation, .sendResetEmail: ["email"]
        case .resetPassword: ["token", "token_id", "password"]
        case .callResetFunction: ["email", "password", "arguments"]
        }
    }
}
