import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// The result that a request would have, by the code of the request path: for `lanyard route`. Nothing is connected and no file is read.
package struct RoutePreview: Sendable {
    package enum Outcome: Sendable {
        case forwarded(Forwarding)
        /// `OPTIONS *`: Lanyard responds itself.
        case respondsItself
        case refused(status: Int, problem: String, detail: String, route: String?)
    }

    /// Where a request would go.
    package struct Forwarding: Sendable {
        package var route: String
        /// nil: there is no user at all.
        package var user: String?
        package var followsActiveUser: Bool
        /// Which of the user's access tokens; nil: the plain one.
        package var token: String?
        /// `http://127.0.0.1:9000` or `unix:/path`.
        package var upstream: String
        /// The target of the request line for the upstream.
        package var target: String
        /// The name of the injected field.
        package var field: String
        /// What becomes of the request's `Upgrade`; nil: it has none.
        package var upgrade: Upgrade?
    }

    /// What becomes of an `Upgrade`.
    package enum Upgrade: Equatable, Sendable {
        /// The upstream is asked for this protocol.
        case forwarded(String)
        /// The field is dropped, for this reason.
        case dropped(String)
    }

    /// Why there is no preview. A type of its own, because it is about the arguments of a command, not about a request.
    package enum PreviewError: Error, Equatable, Sendable {
        /// What is wrong with the method or the URL.
        case unusable(String)
    }

    private let configuration: Configuration

    package init(_ configuration: Configuration) { self.configuration = configuration }

    /// - Parameters:
    ///   - url: a path, which the first listener gets; or a URL, which the listener of its port gets.
    ///   - host: the `Host` field; nil: the URL's authority, or the listener's address.
    ///   - fields: further fields, each as `NAME: VALUE`.
    /// - Throws: no request can be made of these.
    package func outcome(
        method: String, url: String, host: String?, fields: [String] = []
    ) throws(PreviewError) -> Outcome {
        let (index, target, authority) = try request(url)
        let listener = configuration.listeners[index]
        let shownHost = host ?? authority ?? Self.defaultHost(of: listener)
        for text in [method, target, shownHost] where !text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) {
            throw .unusable("\(text.debugDescription) has a blank or another byte that no request line has; escape it")
        }
        for field in fields { try check(field) }
        let names = UserNames(configuration.users.map(\.name))
        let routes = configuration.routes.enumerated().map { index, pair in
            Route(
                pair.route, index: index, user: pair.route.user.map(names.index(of:)), upstream: pair.upstream)
        }
        let table = RouteTable(routes)
        let text =
            "\(method) \(target) HTTP/1.1\r\nHost: \(shownHost)\r\n\(callerFields(of: listener))"
            + fields.map { "\($0)\r\n" }.joined() + "\r\n"
        return Array(text.utf8).withUnsafeBufferPointer { decide($0, table, listener, index, shownHost) }
    }

    private func check(_ field: String) throws(PreviewError) {
        guard let colon = field.firstIndex(of: ":"), colon > field.startIndex,
            field.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f })
        else { throw .unusable("\(field.debugDescription) is not a field; write NAME: VALUE") }
        guard field[..<colon].lowercased() != "host" else { throw .unusable("Host is given by --host") }
    }

    /// The request passes the listener's checks of callers: these are about a client and not about a route.
    private func callerFields(of listener: ListenerSettings) -> String {
        listener.requiredHeader.map { "\($0): x\r\n" } ?? ""
    }

    private func decide(
        _ bytes: UnsafeBufferPointer<UInt8>, _ routes: RouteTable, _ listener: ListenerSettings, _ index: Int,
        _ host: String
    ) -> Outcome {
        let table = FieldTable(capacity: configuration.limits.headerFieldsMax)
        var reader = RequestReader()
        do throws(HeadError) {
            let head = try reader.read(bytes, into: table, limits: HeadLimits(configuration.limits))
            guard let head else { return refusal(.malformed("it is incomplete"), nil) }
            var open = listener
            open.capabilityFile = nil
            let rules = ListenerRules(of: open, at: Self.boundAddress(of: listener, for: host), index: index)
            let decision = withExtendedLifetime(table) {
                RequestAdmission(head, in: bytes, table.all).decide(
                    rules, routes, viaName: Bytes(start: nil, count: 0), capabilities: [])
            }
            switch decision {
            case .forward(let route, let target): return forwarding(route, target, head, bytes, table)
            case .respondToOptions, .handOut: return .respondsItself
            case .refuse(let problem, let route): return refusal(problem, route)
            }
        } catch {
            return refusal(.malformed(error), nil)
        }
    }

    private func refusal(_ problem: Problem, _ route: Route?) -> Outcome {
        .refused(
            status: problem.status, problem: problem.name, detail: problem.detail, route: route?.settings.name)
    }

    private func forwarding(
        _ route: Route, _ target: RequestTarget, _ head: RequestHead, _ bytes: UnsafeBufferPointer<UInt8>,
        _ table: FieldTable
    ) -> Outcome {
        let upgrade: Upgrade? =
            switch UpgradeRequest(of: head, table, in: bytes, on: route) {
            case .none: nil
            case .forwarded(let name): .forwarded(String(decoding: name, as: UTF8.self))
            case .dropped(let obstacle): .dropped(obstacle.explanation)
            }
        return .forwarded(
            Forwarding(
                route: route.settings.name, user: route.settings.user ?? configuration.activeUser,
                followsActiveUser: route.settings.user == nil,
                token: route.settings.token == .plain ? nil : route.settings.token.text,
                upstream: configuration.routes[route.index].upstream.url,
                target: RequestHeadWriter.target(target, bytes[run: head.target], on: route),
                field: route.settings.injectHeader, upgrade: upgrade))
    }

    // MARK: The request

    /// The listener's place, the target of the request line, and the URL's authority.
    private func request(_ url: String) throws(PreviewError) -> (listener: Int, target: String, authority: String?) {
        if url.hasPrefix("/") || url == "*" { return (0, url, nil) }
        guard let origin = URLOrigin(of: url) else {
            throw .unusable("\(url.debugDescription) is neither a path nor an http:// or https:// URL")
        }
        guard let found = AddressText.hostAndPort(origin.authority) else {
            throw .unusable("\(origin.authority.debugDescription) is not a host, host:port, [v6] or [v6]:port")
        }
        let wanted = found.port ?? origin.defaultPort
        let listener = configuration.listeners.firstIndex { listener in
            if listener.broker == nil, case .tcp(_, wanted) = listener.address { true } else { false }
        }
        let path = origin.rest.prefix { $0 != "#" }
        return (listener ?? 0, path.hasPrefix("/") ? String(path) : "/\(path)", origin.authority)
    }

    private static func defaultHost(of listener: ListenerSettings) -> String {
        if let host = listener.allowedHosts?.first { return host }
        if case .tcp = listener.address { return listener.address.authority }
        return "localhost"
    }

    /// The address as if it were bound: port 0 stays 0. A socket of the service manager with `allowed_hosts` is a TCP socket, whose port
    /// only the manager knows. Its port is taken from the request.
    private static func boundAddress(of listener: ListenerSettings, for host: String) -> (text: String, port: UInt16?) {
        let text = listener.address.authority
        switch listener.address {
        case .tcp(_, let port): return (text, port)
        case .activated where listener.allowedHosts != nil:
            return (text, AddressText.hostAndPort(host)?.port ?? (listener.tls == nil ? 80 : 443))
        case .activated, .unix: return (text, nil)
        }
    }
}
