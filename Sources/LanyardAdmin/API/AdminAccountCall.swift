import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface

/// A call about the account of a user, as the path names it. The body is read later.
package enum AdminAccountCall: Equatable, Sendable {
    case profile
    case apiKeys
    case createAPIKey
    case apiKey(String)
    case deleteAPIKey(String)
    case enableAPIKey(String)
    case disableAPIKey(String)
    /// The function's name.
    case function(String)

    var changesState: Bool {
        switch self {
        case .profile, .apiKeys, .apiKey: false
        case .createAPIKey, .deleteAPIKey, .enableAPIKey, .disableAPIKey, .function: true
        }
    }

    var auditName: String {
        switch self {
        case .profile: "profile"
        case .apiKeys: "api_keys"
        case .createAPIKey: "api_keys.create"
        case .apiKey: "api_keys.fetch"
        case .deleteAPIKey: "api_keys.delete"
        case .enableAPIKey: "api_keys.enable"
        case .disableAPIKey: "api_keys.disable"
        // The function's name may say what was done to whom, and stays out of the log.
        case .function: "function"
        }
    }

    /// The status of a success.
    var status: Int {
        switch self {
        case .createAPIKey: 201
        case .deleteAPIKey: 204
        default: 200
        }
    }
}

/// A call about an account with email and password: the last segment of its path.
package enum EmailPasswordVerb: String, Sendable, CaseIterable {
    case register, confirm
    case resendConfirmation = "resend-confirmation"
    case retryCustomConfirmation = "retry-custom-confirmation"
    case sendResetEmail = "send-reset-email"
    case resetPassword = "reset-password"
    case callResetFunction = "call-reset-function"

    /// The status of a success.
    var status: Int { self == .register ? 201 : 200 }
}

/// Percent-encoding (RFC 3986 §2.1).
enum PercentEncoding {
    /// The decoded text; nil if an escape is incomplete, or the result is not UTF-8.
    static func decode(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(ByteClass.hexValue),
                let low = rest.popFirst().flatMap(ByteClass.hexValue)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
