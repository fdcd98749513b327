import Dispatch
import Glibc
import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Connects to every identity service and upstream of a configuration, all at the same time: for `lanyard check --online`.
///
/// The code is that of the request path and of the identity calls, with their TLS, their time limits and the addresses that they refuse.
/// Each connection is closed after its handshake. An identity service that is reached is asked for the location of the app, or for an
/// OAuth server's metadata, as before a login. Only if logins are asked for, each configured user logs in once, unless the login works
/// once, makes an account or needs a browser, and gets the tokens that routes ask for (`LoginTrial`). They are dropped, and the session is
/// ended at the service.
package struct OnlineCheck: Sendable {
    /// The result of one connection, or of one token that a login has asked for.
    package struct Finding: Equatable, Sendable {
        package enum Outcome: String, Sendable {
            /// The connection came about, and the handshake with it; an identity service knows the app; a login has succeeded.
            case reached = "ok"
            case failed
            /// A login that may not be tried.
            case skipped
        }

        package var outcome: Outcome
        /// One line: what, where, and how it is connected or why not.
        package var text: String

        /// The same where only the proxy was reached.
        fileprivate var ofProxyAlone: Finding {
            outcome == .reached ? Finding(outcome: .reached, text: "\(text), and the upstream was not asked") : self
        }
    }

    /// Connects, and calls back once, on any thread.
    private typealias Attempt = (_ reply: @escaping @Sendable ([Finding]) -> Void) -> Void

    private let configuration: Configuration
    private let tls: UpstreamTLS
    private let identityTLS: IdentityTLS
    private let logsIn: Bool
    private let log = Logger(label: "lanyard.check") { _ in SwiftLogNoOpLogHandler() }

    /// - Parameters:
    ///   - upstreamTLS, identityTLS: of this configuration.
    ///   - logsIn: whether users log in.
    package init(
        _ configuration: Configuration, upstreamTLS: UpstreamTLS, identityTLS: IdentityTLS, logsIn: Bool = false
    ) {
        self.logsIn = logsIn
        self.configuration = configuration
        tls = upstreamTLS
        self.identityTLS = identityTLS
    }

    /// Blocks until every attempt has ended: by default 5 s for a name and 10 s for a connection. Once in a process.
    ///
    /// - Returns: identities with their users' logins, then routes, in the order of the configuration. An identity of a fixed token has
    ///   no service.
    /// - Throws: descriptors cannot be created.
    package func findings() throws(SystemError) -> [Finding] {
        // libcurl's TLS writes to sockets that the peer may have closed.
        signal(SIGPIPE, SIG_IGN)
        let loop = try EventLoop(label: "lanyard.check")
        loop.start()
        let services = services(on: loop)
        defer { for service in services { service.client.stop() } }
        let attempts =
            services.flatMap { [attempt($0)] + loginAttempts($0) } + upstreamAttempts(on: loop)
        let findings = Guarded([[Finding]](repeating: [], count: attempts.count))
        let done = DispatchSemaphore(value: 0)
        for (index, attempt) in attempts.enumerated() {
            attempt { finding in
                findings.withLock { $0[index] = finding }
                done.signal()
            }
        }
        for _ in attempts { done.wait() }
        return findings.withLock { $0.flatMap(\.self) }
    }

    // MARK: Identities

    private struct Service {
        let name: String
        let url: String
        let client: any IdentityClient
    }

    private func services(on loop: EventLoop) -> [Service] {
        configuration.identities.compactMap { identity -> Service? in
            let (service, url): (any IdentityClient, String)
            switch identity.kind {
            case .staticToken: return nil
            case .appServices(let app):
                service = AppServicesIdentity(
                    identity, app: app, tls: identityTLS.contents(of: identity), version: BuildVersion.number, on: loop,
                    logger: log)
                url = app.baseURL
            case .oauth(let client):
                service = OAuthIdentity(
                    identity, oauth: client, tls: identityTLS.contents(of: identity), version: BuildVersion.number,
                    on: loop, logger: log)
                url = client.issuer ?? client.endpoints.token ?? ""
            case .gitHubApp(let app):
                service = GitHubAppIdentity(
                    identity, app: app, tls: identityTLS.contents(of: identity), on: loop, logger: log)
                url = app.baseURL
            case .lanyard(let other):
                service = BrokerIdentity(
                    identity, lanyard: other, tls: identityTLS.contents(of: identity), version: BuildVersion.number,
                    on: loop, logger: log)
                url = other.addresses.map(\.description).joined(separator: ", ")
            }
            return Service(name: identity.name, url: url, client: service)
        }
    }

    private func attempt(_ service: Service) -> Attempt {
        let (place, client) = ("identity \(service.name) \(service.url)", service.client)
        return { reply in
            client.connect { connection in
                guard case .success = connection else { return reply([Self.finding(place, connection)]) }
                client.locate { located in reply([Self.finding(place, located.flatMap { connection })]) }
            }
        }
    }

    /// One for each user, also of those whose login is not tried.
    private func loginAttempts(_ service: Service) -> [Attempt] {
        guard logsIn else { return [] }
        return configuration.users.compactMap { user -> Attempt? in
            guard user.identity == service.name else { return nil }
            let (place, client) = ("login of \(user.name) at \(service.name)", service.client)
            guard let kind = user.login?.kind ?? user.interactiveLogin else {
                return { reply in reply([Finding(outcome: .skipped, text: "\(place): no login is configured")]) }
            }
            guard let login = user.login, kind.trialObstacle == nil else {
                let text = "\(place): \(kind.trialObstacle ?? "a user must confirm it")"
                return { reply in reply([Finding(outcome: .skipped, text: text)]) }
            }
            let trial = LoginTrial(
                client: client, user: user.name, identity: service.name, login: login,
                variants: configuration.variants[user.name] ?? [])
            return { reply in trial.run(reply) }
        }
    }

    private static func finding(_ place: String, _ result: Result<IdentityConnection, IdentityError>) -> Finding {
        switch result {
        case .success(let connection):
            let end = connection.certificateEnd.map { ", \(text(ofEnd: $0))" } ?? ""
            return Finding(outcome: .reached, text: "\(place) \(connection.address)\(end)")
        case .failure(let error): return Finding(outcome: .failed, text: "\(place): \(error.operatorMessage)")
        }
    }

    // MARK: Upstreams

    private func upstreamAttempts(on loop: EventLoop) -> [Attempt] {
        let resolver = Resolver()
        return configuration.routes.enumerated().map { index, route in
            let target = UpstreamTarget(
                route.upstream, resolver: resolver, tls: tls.contexts[index],
                proxyAuthorization: route.upstream.proxy?.credentialsFile.flatMap { tls.proxies.values[$0] }, log: log)
            target.setLookupTimeout()
            let proxy = route.upstream.proxy.map { " through \($0.url)" } ?? ""
            let place = "upstream \(route.route.name) \(route.upstream.url)\(proxy)"
            // Only a request would have the proxy connect to the upstream, and it would have a token.
            let isReached = route.upstream.forwardingProxy == nil
            let (version, isVerified) = (route.upstream.httpVersion, !route.skipsVerification)
            return { reply in
                UpstreamProbe(target, on: loop) {
                    let finding = Self.finding(place, $0, speaking: version, isVerified: isVerified)
                    reply([isReached ? finding : finding.ofProxyAlone])
                }.start()
            }
        }
    }

    /// The line of an upstream.
    ///
    /// - Parameters:
    ///   - place: the route and the upstream.
    ///   - version: `protocol` of the route.
    static func finding(
        _ place: String, _ result: Result<UpstreamProbe.Connection, UpstreamError>,
        speaking version: UpstreamSettings.HTTPVersion, isVerified: Bool
    ) -> Finding {
        switch result {
        case .success(let connection):
            var text = "\(place) \(connection.address)"
            if let tls = connection.version {
                guard version != .http2 || connection.agreedProtocol == "h2" else {
                    return withoutHTTP2(place, connection.address)
                }
                text += " \(tls), \(name(ofProtocol: connection.agreedProtocol))"
            }
            if !isVerified {
                text += ", certificate not verified"
            } else if let end = connection.certificateEnd {
                text += ", \(Self.text(ofEnd: end))"
            }
            return Finding(outcome: .reached, text: text)
        case .failure(.tls(.noSharedProtocol, let address, _)) where version == .http2:
            return withoutHTTP2(place, address)
        case .failure(let error):
            let problem = Problem.upstream(error)
            return Finding(outcome: .failed, text: "\(place): \(problem.cause ?? problem.detail)")
        }
    }

    private static func name(ofProtocol agreed: String?) -> String {
        switch agreed {
        case "h2": "HTTP/2"
        case nil: "HTTP/1.1 without ALPN"
        default: "HTTP/1.1"
        }
    }

    /// HTTP/2 over TLS needs the upstream's agreement (RFC 9113 §3.3).
    private static func withoutHTTP2(_ place: String, _ address: SocketAddress?) -> Finding {
        let end = address.map { " The address is \($0)." } ?? ""
        return Finding(
            outcome: .failed,
            text: "\(place): The upstream does not agree on HTTP/2 by ALPN, and the route has protocol: http2. "
                + "Have the upstream offer h2, or set protocol: auto.\(end)")
    }

    private static func text(ofEnd end: WallTime) -> String { "certificate until \(Timestamp.text(end))" }
}

extension UpstreamSettings {
    /// `https://api.example:8443` or `unix:/path`, without a base path.
    var url: String {
        switch endpoint {
        case .tcp(_, _, let tls): "\(tls ? "https" : "http")://\(authority)"
        case .unix(let path): "unix:\(path)"
        }
    }
}
