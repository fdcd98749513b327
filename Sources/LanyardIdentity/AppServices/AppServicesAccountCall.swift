import LanyardFoundations
import LanyardSessionInterface

/// The request of a call about an account (app-services-accounts.md 4).
struct AppServicesAccountCall: Sendable {
    /// Bytes of the result of a function.
    static let functionResultBytesMax = 4 << 20

    let method: CurlRequest.Method
    /// After the origin.
    let path: String
    /// nil: no body.
    let body: Secret?
    /// What messages call it, with its article.
    let label: String
    let changesState: Bool
    var responseBytesMax = 1 << 20

    /// nil if a text of the call is not UTF-8.
    init?(_ call: AccountCall, client: String, appID: String) {
        let app = "\(client)/app/\(appID)"
        let keys = "\(client)/auth/api_keys"
        changesState = call.changesState
        var content = SecretBuffer(capacity: 1024)
        var isText = true
        switch call {
        case .profile, .identities: (method, path, label) = (.get, "\(client)/auth/profile", "the profile request")
        case .deleteAccount: (method, path, label) = (.delete, "\(client)/auth/delete", "the deletion of the account")
        case .apiKeys: (method, path, label) = (.get, keys, "the request for the API keys")
        case .apiKey(let id): (method, path, label) = (.get, "\(keys)/\(id)", "the request for the API key")
        case .deleteAPIKey(let id):
            (method, path, label) = (.delete, "\(keys)/\(id)", "the deletion of the API key")
        case .enableAPIKey(let id):
            (method, path, label) = (.put, "\(keys)/\(id)/enable", "the call that enables the API key")
        case .disableAPIKey(let id):
            (method, path, label) = (.put, "\(keys)/\(id)/disable", "the call that disables the API key")
        case .createAPIKey(let name):
            (method, path, label) = (.post, keys, "the creation of the API key")
            Self.write(["name": .text(name)], into: &content, &isText)
        case .function(let name, let arguments):
            (method, path, label) = (.post, "\(app)/functions/call", "the function call")
            responseBytesMax = Self.functionResultBytesMax
            Self.write(["name": .text(name), "arguments": .json(arguments)], into: &content, &isText)
        case .emailPassword(let call):
            method = .post
            let members: KeyValuePairs<String, Member>
            let verb: String
            (verb, label, members) = Self.members(of: call)
            path = "\(app)/auth/providers/local-userpass/\(verb)"
            Self.write(members, into: &content, &isText)
        }
        guard isText else { return nil }
        if content.count == 0 { body = nil } else { body = content.seal() }
    }

    // MARK: Bodies

    private enum Member {
        case text(String)
        case secret(Secret)
        /// JSON text that goes into the body as it is.
        case json(Secret)
    }

    private static func members(
        of call: EmailPasswordCall
    ) -> (verb: String, label: String, members: KeyValuePairs<String, Member>) {
        switch call {
        case .register(let email, let password):
            ("register", "the registration", ["email": .text(email), "password": .secret(password)])
        case .confirm(let token, let tokenID):
            ("confirm", "the confirmation", ["token": .secret(token), "tokenId": .secret(tokenID)])
        case .resendConfirmation(let email):
            ("confirm/send", "the request for a confirmation mail", ["email": .text(email)])
        case .retryCustomConfirmation(let email):
            ("confirm/call", "the call of the confirmation function", ["email": .text(email)])
        case .sendResetEmail(let email): ("reset/send", "the request for a reset mail", ["email": .text(email)])
        case .resetPassword(let token, let tokenID, let password):
            (
                "reset", "the password reset",
                ["password": .secret(password), "token": .secret(token), "tokenId": .secret(tokenID)]
            )
        case .callResetFunction(let email, let password, let arguments):
            (
                "reset/call", "the call of the reset function",
                ["email": .text(email), "password": .secret(password), "arguments": .json(arguments)]
            )
        }
    }

    /// Writes an object. Names and texts become JSON strings, whatever characters they have.
    private static func write(
        _ members: KeyValuePairs<String, Member>, into content: inout SecretBuffer, _ isText: inout Bool
    ) {
        for (index, (name, member)) in members.enumerated() {
            content.append(index == 0 ? "{" : ",")
            JSONText.write(name, into: &content)
            content.append(":")
            switch member {
            case .text(let text): JSONText.write(text, into: &content)
            case .secret(let secret):
                let isWritten = secret.withBytes { JSONText.write($0, into: &content) }
                isText = isText && isWritten
            case .json(let text): text.withBytes { content.append($0) }
            }
        }
        content.append("}")
    }

    /// The secrets that the call carries besides its token. The text of an error must not repeat them.
    static func secrets(in call: AccountCall) -> [Secret] {
        guard case .emailPassword(let call) = call else { return [] }
        return switch call {
        case .register(_, let password), .callResetFunction(_, let password, _): [password]
        case .confirm(let token, let tokenID): [token, tokenID]
        case .resetPassword(let token, let tokenID, let password): [token, tokenID, password]
        case .resendConfirmation, .retryCustomConfirmation, .sendResetEmail: []
        }
    }
}
