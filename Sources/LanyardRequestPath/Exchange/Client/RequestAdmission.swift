import LanyardFoundations
import LanyardSettings

/// Decides whether a request is forwarded and where to. http-requests.md 4.5 gives the order of the checks.
///
/// `ClientExchange` asks for each request, `lanyard route` for one that an operator describes.
///
/// What each request goes through is inlined: a call would copy the whole value. Objects are arguments: to hold them would
/// count references.
package struct RequestAdmission: ~Copyable {
    package enum Decision {
        case forward(Route, RequestTarget)
        /// `OPTIONS *`, or an OPTIONS with a `Max-Forwards` of 0.
        case respondToOptions
        /// It came to a broker's listener, and asks for a token.
        case handOut(RequestTarget)
        /// The refusal counts for the route, if one was found before. `indirect`: a problem is large, and few requests have one.
        indirect case refuse(Problem, Route?)
    }

    private let head: RequestHead
    private let bytes: Bytes
    private let lines: FieldLines

    /// - Parameters:
    ///   - bytes: begin with the head.
    ///   - lines: of the head.
    package init(_ head: RequestHead, in bytes: Bytes, _ lines: FieldLines) {
        self.head = head
        self.bytes = bytes
        self.lines = lines
    }

    /// - Parameters:
    ///   - rules: of the listener.
    ///   - viaName: Lanyard's member of `Via`.
    ///   - capabilities: one for each listener.
    ///   - isNamedClient: the client's certificate has one of the listener's `client_names`, or it asks for none.
    package func decide(
        _ rules: ListenerRules, _ routes: RouteTable, viaName: Bytes, capabilities: [Secret?],
        isNamedClient: Bool = true
    ) -> Decision {
        if head.traits.contains(.confusable), hasForbiddenConfusableName() {
            return .refuse(.malformed("a field name that resembles a field of framing or routing"), nil)
        }
        do throws(HeadError) {
            let raw = bytes[run: head.target]
            let target = head.kind == .connect ? .root : try RequestTarget.parse(raw, method: head.kind)
            if let problem = try checkAuthority(target, raw, rules, routes) { return .refuse(problem, nil) }
            if let problem = checkOrigin(rules, target) { return .refuse(problem, nil) }
            if !isNamedClient { return .refuse(.certificateNotAllowed, nil) }
            if rules.callers.checksRequests,
                let refusal = rules.callers.check(bytes, lines, capabilities: capabilities)
            {
                return .refuse(.callerNotAllowed(refusal), nil)
            }
            if rules.isBroker {
                return head.expectation == .unknown ? .refuse(.expectationFailed, nil) : .handOut(target)
            }
            if head.kind == .connect || head.kind == .trace {
                let allow = String(decoding: routes.allowed, as: UTF8.self)
                return .refuse(.methodNotAllowed(allow, closes: head.kind == .connect), nil)
            }
            var isForLanyard = target.targetsServer(head.kind)
            if head.traits.contains(.maxForwards), head.kind == .options {
                guard let forwards = maxForwards() else {
                    return .refuse(.malformed("a Max-Forwards that is not one number", closes: false), nil)
                }
                if forwards == 0 { isForLanyard = true }
            }
            if head.expectation == .unknown { return .refuse(.expectationFailed, nil) }
            if isForLanyard { return .respondToOptions }
            return decideRoute(target, routes, viaName, isTLS: rules.tlsIndex != nil)
        } catch {
            return .refuse(.malformed(error), nil)
        }
    }

    @inline(__always)
    private func decideRoute(
        _ target: RequestTarget, _ routes: RouteTable, _ viaName: Bytes, isTLS: Bool
    ) -> Decision {
        // An HTTP/1.0 request without `Host` may name one in its target (RFC 9112 §3.2.2).
        guard routes.usesHosts, case let value = ClientReferences.host(of: head, target, lines, in: bytes),
            let (host, _) = HostValue.split(value)
        else {
            return decideRoute(target, host: nil, routes, viaName, isTLS: isTLS)
        }
        return HostValue.withCanonical(value[run: host]) {
            decideRoute(target, host: $0, routes, viaName, isTLS: isTLS)
        }
    }

    /// - Parameters:
    ///   - host: in canonical form.
    ///   - isTLS: the listener speaks TLS.
    @inline(__always)
    private func decideRoute(
        _ target: RequestTarget, host: Bytes?, _ routes: RouteTable, _ viaName: Bytes, isTLS: Bool
    ) -> Decision {
        let raw = bytes[run: head.target]
        let path = raw[run: target.path]
        let decision =
            path.isEmpty
            ? Self.rootPath.withUnsafeBufferPointer {
                routes.decide(method: bytes[run: head.method], host: host, path: $0)
            } : routes.decide(method: bytes[run: head.method], host: host, path: path)
        switch decision {
        case .route(let route):
            if let problem = checkPolicy(route, viaName) { return .refuse(problem, route) }
            if head.traits.contains(.references),
                let problem = checkReferences(route, target, host: host, routes, isTLS: isTLS)
            {
                return .refuse(problem, route)
            }
            return .forward(route, target)
        case .none: return .refuse(.noRoute, nil)
        case .methodNotAllowed(let allow):
            return .refuse(.methodNotAllowed(String(decoding: allow, as: UTF8.self)), nil)
        case .denied(let route): return .refuse(.denied, route)
        case .ambiguous: return .refuse(.ambiguousPath, nil)
        case .malformed:
            return .refuse(.malformed("an invalid percent escape or %00 in its path", closes: false), nil)
        }
    }

    /// Judges the client's URLs in `Destination` and `If` (http-forwarding.md 10.7).
    @inline(never)
    private func checkReferences(
        _ route: Route, _ target: RequestTarget, host: Bytes?, _ routes: RouteTable, isTLS: Bool
    ) -> Problem? {
        let references = ClientReferences(
            route: route, clientHost: ClientReferences.host(of: head, target, lines, in: bytes), isClientTLS: isTLS)
        let path = bytes[run: head.target][run: target.path]
        return Self.rootPath.withUnsafeBufferPointer { root in
            let request = ClientReferences.Request(
                method: bytes[run: head.method], path: path.isEmpty ? root : path, host: host, overwrites: overwrites)
            return references.check(lines, in: bytes, of: request, routes)
        }
    }

    /// The request does not say `Overwrite: F` for certain (RFC 4918 §10.6).
    private var overwrites: Bool {
        var forbids = false
        for index in 0..<lines.count
        where lines[index].nameLength == 9 && lines.name(index, in: bytes).equals(lowered: "overwrite") {
            guard !forbids, lines.value(index, in: bytes).isEqual(to: "F"),
                !head.connection.nominates(lines.name(index, in: bytes), lines, in: bytes)
            else { return true }
            forbids = true
        }
        return !forbids
    }

    private static let rootPath = [UInt8(ascii: "/")]

    /// Checks `Host` and the authority of an absolute target (http-requests.md 1.6, 4.1, 4.2).
    @inline(__always)
    private func checkAuthority(
        _ target: RequestTarget, _ raw: Bytes, _ rules: ListenerRules, _ routes: RouteTable
    ) throws(HeadError) -> Problem? {
        var host: Bytes?
        var isAllowed = true
        if head.host >= 0 {
            let value = lines.value(head.host, in: bytes)
            isAllowed = try allows(value, rules, routes)
            host = value
        }
        if case .absolute(let authority) = target.form {
            guard raw[run: target.scheme].equals(lowered: rules.scheme) else { return .hostNotAllowed }
            if let host {
                // This check precedes the allow-list: a request that names two servers is malformed, even if one or both
                // are allowed (http-requests.md 1.6).
                guard HostValue.areEqual(raw[run: authority], host, defaultPort: rules.defaultPort) else {
                    throw .malformed("its target and its Host name different servers")
                }
            } else {
                // An HTTP/1.0 request may have no `Host`. Then the target's authority is checked.
                isAllowed = try allows(raw[run: authority], rules, routes)
            }
        }
        return isAllowed ? nil : .hostNotAllowed
    }

    @inline(__always)
    private func allows(_ host: Bytes, _ rules: ListenerRules, _ routes: RouteTable) throws(HeadError) -> Bool {
        switch rules.check(host: host, routes) {
        case .malformed: throw .malformed("a Host that is not host[:port]")
        case .unknown: false
        case .allowed: true
        }
    }

    /// Refuses requests of web pages that are not allowed (http-requests.md 4.4).
    @inline(__always)
    private func checkOrigin(_ rules: ListenerRules, _ target: RequestTarget) -> Problem? {
        guard !head.traits.isDisjoint(with: [.origin, .secFetchSite]) else { return nil }
        var allowedByOrigin = false
        for index in 0..<lines.count where lines[index].name == .origin {
            let origin = lines.value(index, in: bytes)
            guard !rules.isBroker, rules.allows(origin: origin) || isOwn(origin, target, rules) else {
                return .originNotAllowed
            }
            allowedByOrigin = true
        }
        return !allowedByOrigin && lines.isFromOtherSite(in: bytes) ? .originNotAllowed : nil
    }

    /// Whether a program, and no page, has sent the origin that it calls itself: browsers add one `Origin`, and `Sec-Fetch-` fields.
    /// Chromium adds these to no WebSocket handshake. No page can change its `User-Agent`, which begins alike in all browsers.
    @inline(never)
    private func isOwn(_ origin: Bytes, _ target: RequestTarget, _ rules: ListenerRules) -> Bool {
        let host = ClientReferences.host(of: head, target, lines, in: bytes)
        guard rules.isOwn(origin: origin, host: host) else { return false }
        var origins = 0
        for index in 0..<lines.count {
            if lines[index].name == .origin { origins += 1 }
            let name = lines.name(index, in: bytes)
            if name.hasPrefix(lowered: "sec-fetch-") { return false }
            if name.equals(lowered: "user-agent"), lines.value(index, in: bytes).hasPrefix(lowered: "mozilla/") {
                return false
            }
        }
        return origins == 1
    }

    private func maxForwards() -> Int? {
        var number: Int?
        for index in 0..<lines.count where lines[index].name == .maxForwards {
            guard number == nil, let decimal = lines.value(index, in: bytes).decimal else { return nil }
            number = decimal
        }
        return number
    }

    private func hasForbiddenConfusableName() -> Bool {
        for index in 0..<lines.count
        where lines[index].isConfusable && ConfusableNames.isRefused(lines.name(index, in: bytes)) {
            return true
        }
        return false
    }

    /// Checks the route's own rules.
    @inline(__always)
    private func checkPolicy(_ route: Route, _ viaName: Bytes) -> Problem? {
        if case .reject = route.settings.clientAuthorization {
            for index in 0..<lines.count where route.bearerField.isNamed(lines.name(index, in: bytes)) {
                return .authorizationNotAllowed
            }
        }
        if case .reject = route.settings.forwarded, head.traits.contains(.forwarding) { return .forwardedNotAllowed }
        if head.traits.contains(.via), hasPassed(viaName) { return .loop }
        if let bodyBytesMax = route.settings.bodyBytesMax, case .length(let length) = head.framing,
            length > bodyBytesMax
        {
            return .contentTooLarge
        }
        return nil
    }

    /// `Via` holds the pseudonym of this process (http-forwarding.md 18.1).
    private func hasPassed(_ viaName: Bytes) -> Bool {
        for index in 0..<lines.count where lines[index].name == .via {
            for member in FieldList(lines.value(index, in: bytes)) {
                guard let space = member.firstIndex(where: ByteClass.isSpace) else { continue }
                let name = member[run: space..<member.count].trimmed
                if name.count >= viaName.count, viaName.equalsIgnoringCase(name[run: 0..<viaName.count]),
                    name.count == viaName.count || ByteClass.isSpace(name[viaName.count])
                {
                    return true
                }
            }
        }
        return false
    }
}
