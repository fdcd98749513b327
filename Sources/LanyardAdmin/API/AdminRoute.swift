import LanyardRequestPath
import LanyardSessionInterface
import LanyardSettings

/// The routes of the admin API: the one table that the router reads paths with and the OpenAPI document is written from.
enum AdminRoute: CaseIterable, Equatable, Sendable {
    case openAPI, status, users, addUser, user, remove
    case logIn, loginResult, cancelLogin, completeLogin, activate, refresh, logOut, link, customData, token, profile
    case apiKeys, createAPIKey, apiKey, deleteAPIKey, enableAPIKey, disableAPIKey, function
    case emailPassword(EmailPasswordVerb)
    case logLevel, setLogLevel, log, reload, shutdown

    /// A segment of a path that names something.
    enum Parameter: String, CaseIterable {
        case user, identity, id, name, login, route
    }

    static let allCases: [AdminRoute] =
        [
            .openAPI, .status, .users, .addUser, .user, .remove, .logIn, .loginResult, .cancelLogin,
            .completeLogin, .activate, .refresh, .logOut, .link, .customData,
            .token, .profile, .apiKeys, .createAPIKey, .apiKey, .deleteAPIKey, .enableAPIKey, .disableAPIKey, .function,
        ] + EmailPasswordVerb.allCases.map { .emailPassword($0) } + [.logLevel, .setLogLevel, .log, .reload, .shutdown]

    /// GET, POST or DELETE. A route of GET takes HEAD as well.
    var method: RequestHead.Method {
        switch self {
        case .openAPI, .status, .users, .user, .loginResult, .customData, .token, .profile, .apiKeys, .apiKey,
            .logLevel, .log:
            .get
        case .remove, .cancelLogin, .deleteAPIKey: .delete
        case .addUser, .logIn, .completeLogin, .activate, .refresh, .logOut, .link, .createAPIKey, .enableAPIKey,
            .disableAPIKey,
            .function,
            .emailPassword, .setLogLevel, .reload, .shutdown:
            .post
        }
    }

    /// The path; a parameter is in braces and fills its segment.
    var path: String {
        switch self {
        case .openAPI: "/v1/openapi.json"
        case .status: "/v1/status"
        case .users, .addUser: "/v1/users"
        case .user, .remove: "/v1/users/{user}"
        case .logIn: "/v1/users/{user}/login"
        case .loginResult, .cancelLogin, .completeLogin: "/v1/users/{user}/login/{login}"
        case .activate: "/v1/users/{user}/activate"
        case .refresh: "/v1/users/{user}/refresh"
        case .logOut: "/v1/users/{user}/logout"
        case .link: "/v1/users/{user}/link"
        case .customData: "/v1/users/{user}/custom-data"
        case .token: "/v1/users/{user}/token"
        case .profile: "/v1/users/{user}/profile"
        case .apiKeys, .createAPIKey: "/v1/users/{user}/api-keys"
        case .apiKey, .deleteAPIKey: "/v1/users/{user}/api-keys/{id}"
        case .enableAPIKey: "/v1/users/{user}/api-keys/{id}/enable"
        case .disableAPIKey: "/v1/users/{user}/api-keys/{id}/disable"
        case .function: "/v1/users/{user}/functions/{name}"
        case .emailPassword(let verb): "/v1/identities/{identity}/email-password/" + verb.rawValue
        case .logLevel, .setLogLevel: "/v1/log-level"
        case .log: "/v1/log/{route}"
        case .reload: "/v1/reload"
        case .shutdown: "/v1/shutdown"
        }
    }

    /// The call with the values of the path's parameters.
    ///
    /// - Parameter values: one for each parameter of `path`, decoded, in their order.
    func call(_ values: [String]) -> AdminCall {
        let (first, last) = (values.first ?? "", values.last ?? "")
        return switch self {
        case .openAPI: .openAPI
        case .status: .status(AdminPage())
        case .users: .users(AdminPage())
        case .addUser: .addUser
        case .user: .user(first)
        case .remove: .remove(first)
        case .logIn: .logIn(first)
        case .loginResult: .loginResult(first, id: last)
        case .cancelLogin: .cancelLogin(first, id: last)
        case .completeLogin: .completeLogin(first, id: last)
        case .activate: .activate(first)
        case .refresh: .refresh(first)
        case .logOut: .logOut(first)
        case .link: .link(first)
        case .customData: .customData(first)
        case .token: .token(first)
        case .profile: .account(first, .profile)
        case .apiKeys: .account(first, .apiKeys)
        case .createAPIKey: .account(first, .createAPIKey)
        case .apiKey: .account(first, .apiKey(last))
        case .deleteAPIKey: .account(first, .deleteAPIKey(last))
        case .enableAPIKey: .account(first, .enableAPIKey(last))
        case .disableAPIKey: .account(first, .disableAPIKey(last))
        case .function: .account(first, .function(last))
        case .emailPassword(let verb): .emailPassword(identity: first, verb)
        case .logLevel: .logLevel
        case .setLogLevel: .setLogLevel
        case .log: .log(route: first)
        case .reload: .reload
        case .shutdown: .shutdown
        }
    }

    // MARK: Reading a path

    /// A route with its path in segments, split once.
    private struct Pattern {
        enum Segment {
            case word(String)
            case parameter(Parameter)
        }

        let route: AdminRoute
        let segments: [Segment]

        init(_ route: AdminRoute) {
            self.route = route
            segments = route.path.split(separator: "/", omittingEmptySubsequences: false).map { segment in
                guard segment.hasPrefix("{"),
                    let parameter = Parameter(rawValue: String(segment.dropFirst().dropLast()))
                else {
                    return .word(String(segment))
                }
                return .parameter(parameter)
            }
        }

        /// The values of the parameters as the path has them; nil: the path has another form.
        func values(in path: [String]) -> [(Parameter, String)]? {
            guard path.count == segments.count else { return nil }
            var values: [(Parameter, String)] = []
            for (segment, text) in zip(segments, path) {
                switch segment {
                case .word(let word): guard word == text else { return nil }
                case .parameter(let parameter): values.append((parameter, text))
                }
            }
            return values
        }
    }

    private static let patterns = allCases.map(Pattern.init)

    /// The routes whose path has this form, with the values of the parameters, still encoded. No two paths of the table overlap, so
    /// all of them have the same parameters.
    static func matching(_ path: [String]) -> (routes: [AdminRoute], values: [(Parameter, String)])? {
        var found: (routes: [AdminRoute], values: [(Parameter, String)])?
        for pattern in patterns {
            guard let values = pattern.values(in: path) else { continue }
            found = ((found?.routes ?? []) + [pattern.route], values)
        }
        return found
    }
}

extension AdminRoute.Parameter {
    /// Percent escapes are decoded in the name of a function only, because no other valid name needs one.
    ///
    /// - Throws: what the path is read as instead.
    func decode(_ segment: String) throws(AdminCall.PathError) -> String {
        switch self {
        case .user: guard ConfiguredName.isValid(segment) else { throw .noSuchUser }
        case .route: guard ConfiguredName.isValid(segment) else { throw .noRoute }
        case .identity: guard ConfiguredName.isValid(segment) else { throw .noSuchIdentity }
        case .id:
            guard AccountCall.isValidAPIKeyID(segment) else {
                throw .invalid("the id of an API key is one of [A-Za-z0-9_-]{1,64}")
            }
        case .login:
            guard segment.utf8.count == 16, segment.utf8.allSatisfy({ 0x30...0x39 ~= $0 || 0x61...0x66 ~= $0 }) else {
                throw .invalid("the id of a login is 16 digits of [0-9a-f]")
            }
        case .name:
            guard let name = PercentEncoding.decode(segment), 1...Self.functionNameBytesMax ~= name.utf8.count else {
                throw .invalid(
                    "the name of a function is percent-encoded UTF-8 of at most \(Self.functionNameBytesMax) bytes")
            }
            return name
        }
        return segment
    }

    private static let functionNameBytesMax = 256
}
