/// One entry of `routes:` without its upstream, which is an `UpstreamSettings` (architecture-control.md 4.3).
package struct RouteSettings: Equatable, Sendable {
    /// What happens to the injected field if the client sends it itself.
    package enum ClientAuthorization: String, Sendable, CaseIterable { case replace, reject, pass }
    /// What happens to `Forwarded`, `X-Forwarded-*` and `X-Real-IP` of the client.
    package enum ForwardedPolicy: String, Sendable, CaseIterable { case drop, pass, append, reject }
    /// Which `Host` the upstream sees.
    package enum HostPolicy: Equatable, Sendable { case upstream, client, value(String) }
    /// What closes a user's upgraded connections: the end of the session, or another active user on a route that pins
    /// none.
    package enum TunnelCloser: String, Sendable, CaseIterable { case logout, `switch` }
    /// Responses that refuse the token.
    package struct TokenRefusals: Equatable, Sendable {
        /// HTTP statuses.
        package var statuses: [Int] = [401]
        /// `grpc-16`: calls of gRPC that end with this status and without a message.
        package var calls = true
    }

    /// `strict` refuses each path that two readers could understand differently.
    package enum PathMode: String, Sendable, CaseIterable { case lenient, strict }

    /// What happens to the upstream's own addresses in a response: they become client-side addresses, or pass.
    package enum AddressPolicy: String, Sendable, CaseIterable { case rewrite, pass }

    /// The form of Lanyard's own responses to a POST: a problem, or an error of JSON-RPC, which is all that clients of MCP show. `auto` is
    /// the latter for requests with a field of MCP.
    package enum ErrorForm: String, Sendable, CaseIterable { case auto, problem, jsonrpc }

    /// What a client gets if the upstream refuses the token for good: its 401, or a problem with 503, so that an SDK begins no login of its
    /// own.
    package enum UnauthorizedPolicy: String, Sendable, CaseIterable {
        case pass
        case problem = "503"
    }

    /// A path prefix and the methods (empty: all) that the route refuses.
    package struct Denial: Equatable, Sendable {
        package var path: String
        package var methods: [String]
        package init(path: String, methods: [String] = []) {
            self.path = path
            self.methods = methods
        }
    }

    /// A field for the upstream, in place of a client's own.
    package struct Field: Equatable, Sendable {
        /// What its value is.
        package enum Value: Equatable, Sendable {
            /// This text.
            case text(String)
            /// The content of the file at this path, which is a secret and is read again when it changes.
            case file(String)
        }

        package var name: String
        package var value: Value

        package init(name: String, value: String) {
            self.name = name
            self.value = .text(value)
        }

        package init(name: String, file: String) {
            self.name = name
            value = .file(file)
        }

        /// The path of the file that holds the value; nil: it is in the configuration.
        package var file: String? { if case .file(let path) = value { path } else { nil } }
    }

    package var name: String
    /// Host names without port that the route takes; empty: any.
    package var hosts: [String] = []
    /// Path prefix, whole segments.
    package var path = "/"
    /// Methods; empty: any.
    package var methods: [String] = []
    /// What the route refuses with 403.
    package var deny: [Denial] = []
    /// The path of the upstream URL, which replaces the matched prefix; nil leaves the target as it is.
    package var upstreamPath: String?
    /// The pinned user's name; nil follows the active user.
    package var user: String?
    /// `token`: which of the pinned user's access tokens requests carry.
    package var token = TokenVariant.plain
    /// The field that carries the token.
    package var injectHeader = "Authorization"
    /// The injected value before and behind the token: `inject.format` cut at `{token}`.
    package var injectPrefix = "Bearer "
    package var injectSuffix = ""
    /// `client_authorization`.
    package var clientAuthorization = ClientAuthorization.replace
    /// Which responses of an upstream mean: token refused. `reauthenticate_on`.
    package var refusals = TokenRefusals()
    /// Bytes of a request body held for a replay.
    package var replayBodyMax = 64 << 10
    /// Which `Host` the upstream sees.
    package var host = HostPolicy.upstream
    /// Fields for the upstream; each name once.
    package var setHeaders: [Field] = []
    /// The field for the request id of Lanyard; nil sends none.
    package var requestIDHeader: String?
    /// nil is no limit.
    package var bodyBytesMax: Int64?
    /// What happens to the client's own forwarding fields.
    package var forwarded = ForwardedPolicy.drop
    /// `name` or `name/version`, compared without case; never a protocol that carries further HTTP requests.
    package var upgrades = ["websocket"]
    /// What happens to references with the upstream's own origin in `Location` and other fields.
    package var redirects = AddressPolicy.rewrite
    /// Further fields whose value is one reference: `redirects.fields`.
    package var redirectFields: [String] = []
    /// What happens to a cookie's `Domain` and `Path` that are the upstream's own, and to its `Secure`.
    package var cookies = AddressPolicy.rewrite
    /// `errors`.
    package var errors = ErrorForm.auto
    /// How long a request waits for a token, also while the identity service gives none; nil: `refresh.wait_max`, and not in that case.
    package var waitMax: Duration?
    /// `unauthorized`.
    package var unauthorized = UnauthorizedPolicy.pass
    /// How strictly paths are read.
    package var paths = PathMode.lenient
    /// nil is no limit.
    package var upgradedMaxAge: Duration?
    /// What closes upgraded connections.
    package var closeUpgradedOn: [TunnelCloser] = [.logout]
    /// What ends responses in progress.
    package var closeStreamsOn: [TunnelCloser] = []

    package init(name: String) { self.name = name }
}
