import LanyardFoundations
import LanyardSettings

/// The calls of an identity service that concern accounts, besides the three that a session needs
/// (app-services-accounts.md 4).
///
/// Calls return at once. Each has its own deadline, like those of `IdentityService`, and gets exactly one reply, on any
/// queue. Results are JSON text in wiped memory.
package protocol AccountService: AnyObject, Sendable {
    /// Makes one call, once.
    ///
    /// - Parameters:
    ///   - token: what `call.authorization` asks for; nil for a call without a token.
    ///   - reply: the result for the operator. The error's verdict is `callRefused`, `transient`, `unknownOutcome`,
    ///     `gone` or `unknownApp`. A 401 is `callRefused` or `transient` with that status.
    func perform(
        _ call: AccountCall, token: Secret?, reply: @escaping @Sendable (Result<Secret, IdentityError>) -> Void)

    /// Adds another login to the account of the access token's user.
    ///
    /// - Parameter reply: the new access token, without a refresh token: the session stays the same.
    func link(
        _ credential: LoginMethod<Secret>, accessToken: Secret,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)

    /// The custom data of the user that the access token carries, `{}` if there is none. It makes no call.
    func customData(in accessToken: Secret) -> Result<Secret, IdentityError>
}

/// One call about an account. Each case names the JSON of its result.
package enum AccountCall: Sendable {
    /// The token that a call carries.
    package enum Authorization: Equatable, Sendable { case none, accessToken, refreshToken }

    /// The profile as the service sends it, without members that carry a token of another service.
    case profile
    /// `{"user_id", "identities": [{"id", "provider_type"}]}`.
    case identities
    /// Deletes the account. No result.
    case deleteAccount
    /// `{"api_keys": [{"id", "name", "disabled"}]}`.
    case apiKeys
    /// `{"id", "name", "disabled", "key"}`: the only time that the key is shown.
    case createAPIKey(name: String)
    /// `{"id", "name", "disabled"}`. The id has the characters of `isValidAPIKeyID`, here as in the next cases.
    case apiKey(String)
    /// No result.
    case deleteAPIKey(String)
    /// `{"id", "disabled"}`.
    case enableAPIKey(String)
    /// `{"id", "disabled"}`.
    case disableAPIKey(String)
    /// The function's result as it came (extended JSON).
    ///
    /// - arguments: a JSON array.
    case function(name: String, arguments: Secret)
    case emailPassword(EmailPasswordCall)

    /// What the call asks for, as status and log name it.
    package var kind: CallProgress.Kind {
        switch self {
        case .profile: .init(rawValue: "profile")
        case .identities: .init(rawValue: "identities")
        case .deleteAccount: .init(rawValue: "account_deletion")
        case .apiKeys, .createAPIKey, .apiKey, .deleteAPIKey, .enableAPIKey, .disableAPIKey:
            .init(rawValue: "api_key_call")
        case .function: .init(rawValue: "function_call")
        case .emailPassword(.register): .init(rawValue: "registration")
        case .emailPassword(.confirm): .init(rawValue: "confirmation")
        case .emailPassword(.resendConfirmation), .emailPassword(.retryCustomConfirmation):
            .init(rawValue: "confirmation_request")
        case .emailPassword(.sendResetEmail): .init(rawValue: "reset_request")
        case .emailPassword(.resetPassword), .emailPassword(.callResetFunction): .init(rawValue: "password_reset")
        }
    }

    /// The token that the call carries (app-services-accounts.md 4.4: API keys take the refresh token).
    package var authorization: Authorization {
        switch self {
        case .profile, .identities, .deleteAccount, .function: .accessToken
        case .apiKeys, .createAPIKey, .apiKey, .deleteAPIKey, .enableAPIKey, .disableAPIKey: .refreshToken
        case .emailPassword: .none
        }
    }

    /// Whether the call changes something at the service. If its response is lost, its outcome is unknown.
    package var changesState: Bool {
        switch self {
        case .profile, .identities, .apiKeys, .apiKey: false
        default: true
        }
    }

    /// Whether an id may stand in a path as it is: `[A-Za-z0-9_-]{1,64}`. The hosted service's have 24 hexadecimal
    /// digits.
    package static func isValidAPIKeyID(_ id: String) -> Bool {
        1...64 ~= id.utf8.count
            && id.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "_"): true
                default: false
                }
            }
    }
}

/// A call about an account with email and password (app-services-accounts.md 4.6). None carries a token. The result of `register`
/// is `{"email"}`, that of the others `{}`.
package enum EmailPasswordCall: Sendable {
    case register(email: String, password: Secret)
    /// The pair comes from the confirmation mail.
    case confirm(token: Secret, tokenID: Secret)
    case resendConfirmation(email: String)
    case retryCustomConfirmation(email: String)
    case sendResetEmail(email: String)
    /// The pair comes from the reset mail.
    case resetPassword(token: Secret, tokenID: Secret, password: Secret)
    /// - arguments: a JSON array.
    case callResetFunction(email: String, password: Secret, arguments: Secret)
}
